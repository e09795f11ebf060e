"""Every table and figure of the paper has an entry, and every command that an entry names can be run."""

import pytest

from rootpool.paper.bench import Bench
from rootpool.paper.entries import ENTRIES, choose, claim, source, title
from rootpool.paper.published import load_published
from rootpool.paper.theory import THEORY
from rootpool.train.recipes import load_recipe, recipe_names
from rootpool.train.settings import apply_overrides, resolve


def test_every_table_and_figure_has_an_entry_and_the_other_way_round():
    published = load_published()
    expected = {t.entry for t in published.tables.values()}
    expected |= {f.entry for f in published.figures.values()}
    assert len(expected) == 11 + 5
    assert set(ENTRIES) == expected | set(THEORY) | {"text:seeds"}
    for name in expected:
        assert claim(name) == source(name).claim


def test_what_runs_here_and_what_needs_more():
    bench = Bench()
    assert [n for n, entry in ENTRIES.items() if not entry.suits(bench)] == ["table:fgvc"]
    trained = {n for n, entry in ENTRIES.items() if entry.trials(bench)} - {"table:fgvc"}
    assert trained == {
        "figure:training-curves",
        "figure:precision-and-smoothness",
        "figure:eigenvalue-ratio",
        "figure:smooth-gradients",
        "figure:warm-up-curves",
        "table:condition-number",
        "table:alexnet",
        "table:resnet",
        "table:warm-up-epochs",
        "text:seeds",
    }
    assert len(ENTRIES["text:seeds"].trials(bench)) == 5  # whatever --seeds is


@pytest.mark.parametrize("name", [n for n, entry in ENTRIES.items() if entry.full])
def test_commands_at_full_size_can_be_run(name):
    for pattern in ENTRIES[name].full:
        recipe, *overrides = pattern.format(method="svd-pade").split()
        assert recipe in recipe_names()
        resolve(apply_overrides(load_recipe(recipe).config, overrides))


def test_titles_differ():
    titles = [title(name) for name in ENTRIES]
    assert len(set(titles)) == len(titles)
    assert title("table:fgvc") == "Table 4: fine-grained data"


def test_choose():
    assert choose([]) == list(ENTRIES)
    assert choose(["theory"]) == list(THEORY)
    assert choose(["table:speed", "figure:eigenvalue-ratio"]) == [
        "figure:eigenvalue-ratio",  # in the order of the report
        "table:speed",
    ]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("table:sped", "table:speed"),
        ("speed", "table:speed"),
    ],
)
def test_unknown_entry(name, near):
    with pytest.raises(ValueError, match=f"unknown entry '{name}'; did you mean .*{near}"):
        choose([name])
