"""Recipes that are a whole study instead of one training: functions of data and an output folder.

A study keeps what is finished, so that the same command goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentError, ArgumentParser

from rootpool.heads.birds_page import experiment as birds

from .settings import SettingsError, apply_overrides

__all__ = ["STUDIES", "Study"]


@dataclass(frozen=True)
class Study:
    """A study by name.

    Args:
        about: one line.
        data: what the folder of the images is.
        run: takes data, output folder and options; returns the page that it has written.
    """

    about: str
    data: str
    run: Callable[..., Path]

    def options(self, overrides: Sequence[str] = ()) -> dict[str, Any]:
        """The keyword arguments of ``run``, with ``key=value`` replaced."""
        parser = ArgumentParser(exit_on_error=False)
        parser.add_function_arguments(self.run, skip={"data", "output"})
        try:
            return parser.parse_object(apply_overrides({}, overrides)).as_dict()
        except (ArgumentError, KeyError, TypeError) as error:
            known = ", ".join(parser.get_defaults().as_dict())
            raise SettingsError(
                f"the options of this recipe are {known}, as key=value; {error}"
            ) from error


STUDIES: Mapping[str, Study] = {
    "birds-cpu": Study(
        "Birds on a laptop: heads on a frozen EfficientNet-Lite0, a quarter of an hour",
        "CUB-200-2011 in its official layout, or a folder with train/ and test/",
        birds,
    ),
}
