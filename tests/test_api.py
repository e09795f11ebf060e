"""Every public name is documented so that help() suffices: options, result and an example."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

from pages import blocks

ROOT = Path(__file__).parents[1]
PACKAGES = ("linalg", "nn", "models")
RESULTS = {
    "Settings",
    "DataSettings",
    "ModelSettings",
    "TrainerSettings",
    "Family",
    "Recipe",
    "Run",
}
RESULTS |= {
    "TrainedRun",
    "NonFiniteError",
    "RunFolder",
    "RunGroup",
    "PairedDifference",
    "Comparison",
}
RESULTS |= {"Block", "Rendering"}  # protocols of pages
OPTIONS_OF_OTHERS = {"resolve_method", "resolve_pool", "create_model", "load_checkpoint"}


def public():
    for package in PACKAGES:
        module = import_module(f"rootpool.{package}")
        for name in module.__all__:
            value = getattr(module, name)
            result = inspect.isclass(value) and issubclass(value, tuple)  # what a function returns
            if (inspect.isfunction(value) or inspect.isclass(value)) and not result:
                yield pytest.param(value, id=f"{package}.{name}")


@pytest.mark.parametrize("value", list(public()))
def test_name_is_documented(value):
    """A class may leave the example to its base; a function with arguments says what it returns."""
    family = value.__mro__ if inspect.isclass(value) else [value]
    documents = [one.__doc__ or "" for one in family if one.__module__.startswith("rootpool")]
    assert documents[0]
    assert any(">>> " in document for document in documents)
    if inspect.isfunction(value):
        signature = inspect.signature(value)
        passes = signature.return_annotation in ("None", "Iterator[None]")
        assert passes or "Args:" not in documents[0] or "Returns:" in documents[0]
        hidden = [p for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]
        assert not hidden or value.__name__ in OPTIONS_OF_OTHERS


@pytest.mark.parametrize("package", ["train", "report", "report.plots"])
def test_name_is_in_an_example(package):
    """In a docstring, or in code of the documentation, which runs; results are shown by what returns them."""
    sources = [file.read_text("utf-8") for file in (ROOT / "src").rglob("*.py")]
    code = re.findall(r"(?:>>>|\.\.\.) .*", "".join(sources))
    code += [block.code for page in (ROOT / "docs").rglob("*.md") for block in blocks(page)]
    module, shown = import_module(f"rootpool.{package}"), set(re.findall(r"\w+", "".join(code)))
    values = {name: getattr(module, name) for name in module.__all__}
    calls = {name for name, v in values.items() if inspect.isfunction(v) or inspect.isclass(v)}
    assert calls - RESULTS - shown == set()
