"""Studies as data: what a file may say, and that the files of the studies say it."""

import pkgutil

import pytest

from rootpool.train import load_recipe, resolve
from studies.approximation.command import load_approximation
from studies.birds.command import load_birds
from studies.engine.network import SMALL, Network, all_trials
from studies.engine.study import load_study
from studies.followups.command import load_followups
from studies.paper.command import load_paper

STUDIES = {
    "paper": load_paper,
    "approximation": load_approximation,
    "followups": load_followups,
    "birds": load_birds,
}
GOOD = """
title: t
lead: l
command: python -m studies t
sections: {table: Tables}
groups: {two: &two [mpn-cov, svd-pade]}
runs: {some: {methods: [exact, *two]}}
entries:
  table:a:
    title: A
    claim: c.
    runs: [some]
    parts: [{text: q., judge: better, first: {method: two}, against: {method: exact}}]
"""


def written(tmp_path, text):
    path = tmp_path / "study.yaml"
    path.write_text(text)
    return path


def test_a_small_file(tmp_path):
    study = load_study(written(tmp_path, GOOD))
    assert study.runs["some"].methods == ["exact", "mpn-cov", "svd-pade"]  # a named list is spliced
    (part,) = study.entries["table:a"].parts
    assert part.against == [{"method": "exact"}]
    assert [e.name for e in study.choose(["table"])] == ["table:a"]
    with pytest.raises(ValueError, match="unknown entry 'table:b'; did you mean table:a"):
        study.choose(["table:b"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lead: l\n", "", "study.yaml: the study needs lead, got title, command"),
        ("methods:", "method:", "runs 'some': unknown key 'method'; did you mean methods"),
        ("runs: [some]", "runs: [same]", "table:a: unknown runs 'same'; did you mean some"),
        ("judge: better", "judge: beter", "table:a: unknown judge 'beter'; did you mean better"),
        ("judge: better", "margin: 1", r"one of judge, measured and outcome, got \[\] in 'q.'"),
        ("judge: better", "judge: better, measured: x", r"got \['judge', 'measured'\]"),
        ("table:a:", "tabel:a:", "tabel:a: unknown section 'tabel'; did you mean table"),
        ("[{text: q.,", "[q, {text: q.,", "a part of table:a must have keys such as text, got 'q'"),
        ("title: t", "title: [", "study.yaml: while parsing"),
    ],
)
def test_broken_files(old, new, message, tmp_path):
    assert old in GOOD
    with pytest.raises(ValueError, match=message):
        load_study(written(tmp_path, GOOD.replace(old, new)))


@pytest.mark.parametrize("name", [name for name in STUDIES if name != "birds"])
def test_every_run_of_every_study_can_be_configured(name):
    study = STUDIES[name]()
    for family in SMALL:
        for runs in study.runs:
            for trial in all_trials(study, Network(family, seeds=1), [runs]):
                resolve(trial.config)


@pytest.mark.parametrize("name", STUDIES)
def test_every_part_that_compares_runs_finds_some(name):
    """On made-up rows of all runs: a slip in a tag would leave a part without an answer for ever."""
    from studies.engine.questions import pairs

    study = STUDIES[name]()
    for entry in study.entries.values():
        rows = [
            {
                "run": own.name.format(method=m, **option) + suffix,
                "method": m,
                "protocol": protocol,
                **own.tags,
                **option,
            }
            for own in (study.runs[n] for n in entry.runs)
            for m in own.methods
            for option in [{o: v} for o, values in own.over.items() for v in values] or [{}]
            for protocol, suffix in (("standalone", ""), ("hybrid", ", hybrid"))
        ]
        for part in (*entry.parts, *entry.beside):
            if part.judge and part.where != "few-shot":
                assert pairs(part, rows, study.groups), part.text
            assert part.text.endswith(".")


@pytest.mark.parametrize("name", STUDIES)
def test_measures_are_functions_and_full_experiments_are_recipes(name):
    for entry in STUDIES[name]().entries.values():
        assert not entry.measure or callable(pkgutil.resolve_name(entry.measure))
        for command in entry.full:
            _, train, family, _, method, *rest = command.split()
            assert train == "train"
            resolve(load_recipe(family, method, "--hybrid" in rest).config)
