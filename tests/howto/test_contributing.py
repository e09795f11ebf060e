"""CONTRIBUTING and ARCHITECTURE keep their word: their examples run, and what they name exists."""

import re
import runpy
from pathlib import Path
from unittest import mock

import pytest
import tomllib
import torch

import matrices
import rootpool.linalg.rules
import rootpool.nn.follow_ups
import rootpool.train.data.layouts
import rootpool.train.data.readers
import studies.paper.theory
from images import class_names, save_image
from rootpool.linalg import RULES, eigh
from rootpool.models import create_model, load_checkpoint, save_checkpoint
from rootpool.nn import METHODS, CovariancePool, register
from rootpool.train import build, load_recipe, recipe, resolve
from rootpool.train.data import LAYOUTS, open_splits
from studies.engine.command import Options, run_study
from studies.engine.study import load_study
from studies.paper.theory import statement

ROOT = Path(__file__).parents[2]
PAGES = {
    name: (ROOT / f"{name}.md").read_text(encoding="utf-8")
    for name in ("CONTRIBUTING", "ARCHITECTURE")
}
FOLDERS = "src|studies|tests|docs|scripts|benchmarks|examples|\\.ci"


def example(kind):
    """The block of code in the section on such an addition."""
    section = re.search(
        rf"^### How to add an? {kind}\n.*?^```\w+\n(.*?)^```", PAGES["CONTRIBUTING"], re.M | re.S
    )
    return section[1]


def added_to(kind, *modules):
    """The names of an example that is written at the end of these modules."""
    scope = {name: value for module in modules for name, value in vars(module).items()}
    exec(example(kind), scope)
    return scope


def readme_table(name):
    return runpy.run_path(str(ROOT / "scripts" / "site_tables.py"))[name]()


def test_a_gradient_rule(monkeypatch):
    Bounded = added_to("gradient rule", rootpool.linalg.rules)["Bounded"]
    monkeypatch.setitem(RULES, "bounded", Bounded)
    for kind in matrices.SPECTRA:
        lam = matrices.spectrum(kind)
        K = Bounded()(lam)
        assert torch.equal(K, -K.mT)
        assert K.isfinite().all()
        assert torch.allclose(Bounded()(4 * lam), K / 4)
    A = torch.diag(torch.tensor([1.0, 1.0 + 1e-12, 3.0], dtype=torch.float64)).requires_grad_()
    _, U = eigh(A, rule="bounded")
    U[0, 0].backward()
    assert A.grad.abs().max() <= 1e6
    with pytest.raises(ValueError, match="bounded"):
        eigh(A, rule="bounde")
    assert "| `bounded` | `Bounded(ratio=1000000.0)` | 0 | when the scale" in readme_table("rules")


def test_a_pooling_method(tmp_path):
    Shrinkage = added_to("pooling method", rootpool.linalg, rootpool.nn.follow_ups)["Shrinkage"]
    with mock.patch.dict(METHODS):
        register(Shrinkage)
        features = torch.randn(2, 6, 4, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(CovariancePool(6, "shrinkage"), features)
        save_checkpoint(create_model("patchnet", "shrinkage", 4), tmp_path / "own.safetensors")
        assert load_checkpoint(tmp_path / "own.safetensors").pool.method == Shrinkage()
        module, _ = build(resolve(recipe("patches", "shrinkage", hybrid=True).config))
        assert module.model.pool.method == Shrinkage()
        rows = readme_table("methods")
    assert "`Shrinkage(share=0.1)`" in rows
    assert "with many channels and few positions" in rows


def test_a_data_set(tmp_path, monkeypatch):
    modules = rootpool.train.data.readers, rootpool.train.data.layouts
    layout = added_to("data set", *modules)["TAB_SEPARATED"]
    monkeypatch.setattr("rootpool.train.data.layouts.LAYOUTS", [*LAYOUTS, layout])
    root, rows = tmp_path / "data", []
    for split in ("train", "val"):
        for label, name in enumerate(class_names(2)):
            file = f"{split}-{name}.jpg"
            save_image(root / "pictures" / file, label, 2, (40, 32), seed=0)
            rows.append(f"{split}\t{name}\t{file}")
    (root / "labels.tsv").write_text("\n".join(rows), encoding="utf-8")
    splits = open_splits(root, train_transform=lambda x: x, val_transform=lambda x: x)
    assert (splits.name, splits.classes) == ("tab-separated", ("class00", "class01"))
    assert [label for _, label in splits.train] == [0, 1]


def test_a_recipe(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(example("recipe"))
    module, _ = build(resolve(load_recipe(str(file)).config))
    assert module.hparams["backbone"] == "patchnet"  # of the family
    assert module.model.pool.method.bound == 1e8


WORDS = """
title: t
lead: l
command: c
sections: {theory: T}
runs: {}
entries:
  theory:root-squared:
    title: The square of the root is the matrix
    claim: Our square root, squared, gives the matrix up to rounding.
    measure: studies.paper.theory:ROOT_SQUARED
    caption: Relative error by the size of the matrix.
    parts: [{text: It holds., measured: holds, scale: argument}]
"""


def test_an_entry_of_a_study(tmp_path, monkeypatch, capsys):
    measure = added_to("entry of a study", rootpool.linalg, statement)["errors_by_size"]
    plot = statement.line_plot("size", {"our root": ("error", {})}, ("size", "relative error"))
    entry = statement.statement(measure, plot)
    monkeypatch.setattr(studies.paper.theory, "ROOT_SQUARED", entry, raising=False)
    (tmp_path / "study.yaml").write_text(WORDS)
    run_study(load_study(tmp_path / "study.yaml"), [], [], Options(tmp_path, tmp_path / "runs"))
    assert "theory:root-squared: 1 of 1 seen" in capsys.readouterr().out
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "> ✓ **follows by argument.** It holds. Here: The largest relative error is" in report
    assert "![Relative error by the size of the matrix.]" in report


@pytest.mark.parametrize("page", PAGES)
def test_paths_exist(page):
    named = re.findall(rf"[`(]((?:{FOLDERS})(?:/[\w./-]+)?)[`)]", PAGES[page])
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_rooms_are_the_layers_that_imports_obey():
    """In parentheses the contract names what may be absent."""
    rows = re.findall(r"^\| (`(?:studies|rootpool\.).*?) \|", PAGES["ARCHITECTURE"], re.MULTILINE)
    drawn = [set(re.findall(r"`([\w.]+)`", row)) for row in rows]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    inside, on_top = settings["tool"]["importlinter"]["contracts"]
    assert on_top["layers"] == ["studies", "rootpool"]
    layers = [
        {f"rootpool.{name}" for name in layer.split(" | ") if not name.startswith("(")}
        for layer in inside["layers"]
    ]
    assert drawn == [{"studies"}, *layers]
