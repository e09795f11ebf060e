"""Every public name is documented so that help() suffices: options, result and an example."""

import inspect
from importlib import import_module

import pytest

PACKAGES = ("linalg", "nn", "models")
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
