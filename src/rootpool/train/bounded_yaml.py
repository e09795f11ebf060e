"""YAML from anybody: plain values, and no more of them than a configuration has."""

from __future__ import annotations

from typing import Any

import yaml

__all__ = ["YAML_LENGTH", "parse_yaml"]

YAML_LENGTH = 100_000  # characters
MOST_VALUES = 10_000
DEEPEST = 30


class _Loader(yaml.SafeLoader):
    """Counts what aliases stand for: a few lines of them can stand for billions of values."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.sizes: dict[int, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        is_alias = self.check_event(yaml.AliasEvent)
        self.depth += 1
        if self.depth > DEEPEST:
            raise yaml.YAMLError(f"it is nested more than {DEEPEST} deep")
        node = super().compose_node(parent, index)
        self.depth -= 1
        if not is_alias:
            self.sizes[id(node)] = 1 + sum(self._size(child) for child in _children(node))
        if self._size(node) > MOST_VALUES:
            raise yaml.YAMLError(f"it has more than {MOST_VALUES} values, those of aliases counted")
        return node

    def _size(self, node: Any) -> int:
        if id(node) not in self.sizes:
            raise yaml.YAMLError("it contains itself")
        return self.sizes[id(node)]


def _children(node: Any) -> list[Any]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def parse_yaml(text: str) -> Any:
    """The value of a text; ValueError for what is no YAML, has tags of Python, or is too much.

    >>> parse_yaml("{rate: 0.1, sizes: [1, 2]}")
    {'rate': 0.1, 'sizes': [1, 2]}
    """
    if len(text) > YAML_LENGTH:
        raise ValueError(f"it has more than {YAML_LENGTH} characters")
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
