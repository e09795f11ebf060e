"""YAML that would run code or fill the memory."""

import time

import pytest

from rootpool.train.bounded_yaml import MOST_VALUES, YAML_LENGTH, parse_yaml


def laughs(levels, each=10, line="{0}: &{0} [{1}]"):
    """Aliases of aliases: ``each ** levels`` values in a line for each level."""
    lines = [line.format("a0", ", ".join(["x"] * each))]
    lines += [line.format(f"a{k}", ", ".join([f"*a{k - 1}"] * each)) for k in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        laughs(9),
        laughs(30, 2),
        "a0: &a0 {x: 1}\n"
        + "\n".join(f"a{k}: &a{k} {{<<: [*a{k - 1}, *a{k - 1}]}}" for k in range(1, 40)),
    ],
    ids=["billion laughs", "doubled", "merged"],
)
def test_aliases_that_stand_for_billions(text):
    started = time.process_time()
    with pytest.raises(ValueError, match=f"more than {MOST_VALUES} values, those of aliases"):
        parse_yaml(text)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "!!python/object/apply:os.mkdir [marker]",
            "could not determine a constructor for the tag",
        ),
        ("a: !!python/name:os.system", "could not determine a constructor for the tag"),
        ("a: !!python/module:antigravity", "could not determine a constructor for the tag"),
        ("&a [*a]", "it contains itself"),
        ("&a {x: {y: *a}}", "it contains itself"),
        ("[" * 5000, "nested more than 30 deep"),
        ("{a: " * 500 + "1" + "}" * 500, "nested more than 30 deep"),
        ("x" * (YAML_LENGTH + 1), "more than 100000 characters"),
        ("9" * 5000, "int"),
        ("2024-99-99", "month must be in 1..12"),
        ("{[1]: 2}", "unhashable key"),
        ("a: 1\n--- \nb: 2", "expected a single document"),
        ("a: \x00", "not allowed"),
    ],
)
def test_what_is_refused(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        parse_yaml(text)
    assert not list(tmp_path.iterdir())


def test_anchors_that_save_some_typing():
    text = "base: &base {lr: 0.1, sizes: [1, 2]}\nother: {<<: *base, lr: 0.2}\nsame: *base"
    base = {"lr": 0.1, "sizes": [1, 2]}
    assert parse_yaml(text) == {"base": base, "other": base | {"lr": 0.2}, "same": base}
