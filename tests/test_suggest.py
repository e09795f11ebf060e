import pytest

from rootpool.suggest import unknown_name

KNOWN = ["table:speed", "table:alexnet", "figure:curves", "model.lr", "trainer.max_epochs"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("table:sped", "; did you mean table:speed"),
        ("speed", "; did you mean table:speed"),
        ("trainer.epochs", "; did you mean trainer.max_epochs"),
        ("lr", "; did you mean model.lr?"),
        ("!", ""),
    ],
)
def test_the_nearest_name_comes_first(name, hint):
    text = unknown_name("thing", name, KNOWN, "somewhere")
    assert text.startswith(f"unknown thing {name!r}{hint}")
    assert text.endswith(" (all of them: somewhere)")
    assert bool(hint) == ("did you mean" in text)
