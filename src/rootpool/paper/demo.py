"""The paper's comparison in small: methods, standalone and hybrid, on the embedded photographs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from rootpool.analysis.records import to_json
from rootpool.files import write_atomically
from rootpool.nn import method_names
from rootpool.train.recipes import load_recipe, recipe_names
from rootpool.train.settings import SettingsError, merge
from rootpool.train.study import Event, Trial, run_trials

from .demo_page import demo_page

__all__ = ["SELECTION", "demo", "demo_trials"]

SELECTION = ("gap", "isqrt-cov", "mpn-cov", "svd-pade", "exact")
SPECTRUM_EVERY = 21  # steps; three records an epoch


def demo_trials(methods: Sequence[str], seeds: int, family: str = "patches") -> list[Trial]:
    """The runs of the comparison: every method standalone, and hybrid where there is such a recipe.

    >>> [trial.label for trial in demo_trials(["isqrt-cov", "exact"], seeds=1)]
    ['isqrt-cov', 'exact', 'exact, hybrid']
    """
    known = recipe_names()
    trials = []
    for method in methods:
        for protocol, ending in (("standalone", ""), ("hybrid", "-hybrid")):
            name = f"{family}-{method}{ending}"
            if name not in known:
                continue
            recipe = load_recipe(name)
            for seed in range(seeds):
                config = merge(recipe.config, {"seed": seed, "spectrum_every": SPECTRUM_EVERY})
                tags = {"method": method, "protocol": protocol, "seed": seed}
                trials.append(Trial(method + ending.replace("-", ", "), config, tags))
    return trials


class LiveTable:
    """What all runs are doing, drawn anew as they report."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        firsts = [first for trial in trials if (first := trial.first_stage) is not None]
        for trial in [*firsts, *trials]:
            epochs = trial.config["trainer"]["max_epochs"]
            row = {"label": trial.label, "seed": trial.tags["seed"], "epochs": epochs, "epoch": 0}
            self.rows.setdefault(trial.key, row)

    def update(self, event: Event) -> None:
        row = self.rows[event.key]
        if event.record is not None:
            row.update(event.record, epoch=event.record["epoch"] + 1)
        if event.done:
            row["done"] = True

    def __rich__(self) -> Table:
        table = Table(title="photo-patches: 18 classes, errors in per cent")
        for name, justify in (("run", "left"), ("seed", "right"), ("epoch", "left")):
            table.add_column(name, justify=justify)  # type: ignore[arg-type]
        table.add_column("train error", justify="right")
        table.add_column("validation error", justify="right")
        for row in self.rows.values():
            done, total = row["epoch"], row["epochs"]
            bar = "done" if row.get("done") else "━" * done + "╌" * (total - done)
            errors = (f"{row[k]:.1f}" if k in row else "" for k in ("train_error", "val_error"))
            table.add_row(row["label"], str(row["seed"]), bar, *errors)
        return table


def demo(
    output: str | Path,
    seeds: int = 1,
    methods: Sequence[str] | None = None,
    workers: int | None = None,
) -> int:
    """Run the comparison, or what is left of it; write ``index.html``, ``report.md``, ``results.json``."""
    known = ["gap", *method_names("ours", "paper")]
    chosen = known if methods == ["all"] else list(methods or SELECTION)
    unknown = [method for method in chosen if method not in known]
    if unknown:
        raise SettingsError(
            f"no recipe for {', '.join(unknown)}; methods of the demo: all, {', '.join(known)}"
        )
    if seeds < 1:
        raise SettingsError(f"seeds must be positive, got {seeds}")
    output = Path(output)
    trials = demo_trials(chosen, seeds)
    table, console, started = LiveTable(trials), Console(), time.perf_counter()
    workers = workers or os.cpu_count() or 1
    console.print(f"{len(trials)} runs, {workers} at a time; stop and start again as you like")
    with Live(table, console=console, refresh_per_second=4):
        results = run_trials(trials, output / "runs", workers=workers, on_event=table.update)
    seconds = time.perf_counter() - started
    write_atomically(output / "results.json", to_json(results))
    page = demo_page(results)
    page.write_markdown(output / "report.md")
    where = page.write(output / "index.html").resolve().as_uri()
    console.print(f"{seconds:.0f} s. Look at [bold]{where}[/bold]", highlight=False)
    return 0
