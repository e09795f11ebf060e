"""Every table and figure of the paper has an entry, and every command that an entry names can be run."""

import pytest

from rootpool.train import apply_overrides, load_recipe
from rootpool.train.settings import resolve
from studies.paper.entries import ENTRIES, choose, register
from studies.paper.plan import OURS, Plan
from studies.paper.published import load_published
from studies.paper.theory import THEORY


def test_every_claim_of_the_paper_has_an_entry():
    published = load_published()
    for kind in (published.tables, published.figures, published.texts):
        for source in kind.values():
            assert ENTRIES[source.entry].claim == source.claim


def test_a_comparison_trains_the_methods_of_its_table_as_published_and_ours():
    published, plan = load_published(), Plan(seeds=1)
    for name in ("table:alexnet", "table:resnet", "figure:training-curves"):
        trials = ENTRIES[name].trials(plan)
        assert {t.tags["method"] for t in trials} == {*published.find(name).trained, *OURS}
        trained = {t.tags["method"]: t.config["model"]["method"] for t in trials}
        assert trained["svd-pade"] == "svd-pade-published"
        assert trained["mpn-cov, fused"] == "mpn-cov"


def test_fine_tuning_is_not_for_the_embedded_data():
    assert not ENTRIES["table:fgvc"].suits(Plan())
    assert ENTRIES["table:alexnet"].suits(Plan())


def test_entries_whose_methods_are_not_chosen_are_left_out():
    plan = Plan(methods=("gap", "exact"))
    assert not ENTRIES["table:condition-number"].suits(plan)
    assert not ENTRIES["figure:training-curves"].suits(plan)
    assert ENTRIES["table:resnet"].suits(plan)


def test_five_seeds_whatever_is_asked_for():
    assert len(ENTRIES["text:seeds"].trials(Plan(seeds=1))) == 5


@pytest.mark.parametrize("name", [n for n, entry in ENTRIES.items() if entry.full])
def test_commands_at_full_size_can_be_run(name):
    for full in ENTRIES[name].full:
        made = load_recipe(full.family, "svd-pade", full.protocol == "hybrid")
        resolve(apply_overrides(made.config, full.overrides))


def test_titles_differ():
    titles = [entry.title for entry in ENTRIES.values()]
    assert len(set(titles)) == len(titles)
    assert ENTRIES["table:fgvc"].title == "Table 4: fine-grained data"


def test_choose():
    assert choose([]) == list(ENTRIES.values())
    assert [entry.name for entry in choose(["theory"])] == [s.entry for s in THEORY]
    assert [entry.name for entry in choose(["table:speed", "figure:eigenvalue-ratio"])] == [
        "figure:eigenvalue-ratio",  # in the order of the report
        "table:speed",
    ]


def test_an_entry_cannot_be_registered_twice():
    with pytest.raises(ValueError, match="there is already an entry 'table:speed'"):
        register(ENTRIES["table:speed"])


@pytest.mark.parametrize("name", ["table:sped", "speed"])
def test_unknown_entry(name):
    with pytest.raises(ValueError, match=f"unknown entry '{name}'; did you mean .*table:speed"):
        choose([name])
