"""``rootpool paper``: run what has no result yet, and write the report."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import rootpool
from rootpool.analysis import write_records
from rootpool.files import write_atomically
from rootpool.train.study import Event, Trial, run_trials

from .bench import Bench, Run, Study
from .entries import ENTRIES, Entry, choose, claim, title
from .report import make_page
from .result import Result

__all__ = ["paper", "show_entries"]

MARKS = {True: "[green]✓ shows[/]", False: "[red]✗ does not show[/]", None: "[yellow]≈ unclear[/]"}


def show_entries(names: Sequence[str] = ()) -> int:
    """Print the names of entries with their claims."""
    table = Table()
    for heading in ("entry", "in the paper", "claim"):
        table.add_column(heading, overflow="fold")
    for name in choose(names):
        table.add_row(name, title(name), claim(name) or "")
    Console().print(table)
    return 0


def paper(
    names: Sequence[str] = (),
    *,
    output: str | Path = "runs/paper",
    seeds: int = 3,
    workers: int | None = None,
    data: str | None = None,
    recipes: str | None = None,
    weights: str | None = None,
    markdown: str | Path | None = None,
) -> int:
    """Measure entries, or what is left of them, and write ``report.html`` and ``report.md``.

    Args:
        names: entries, or kinds of entries; all by default.
        output: results, runs and the report.
        seeds: repetitions of every training.
        workers: trainings at a time; None for one a core.
        data: a folder of images instead of the embedded ones.
        recipes: what the names of the recipes begin with; by default what the layout of the data says.
        weights: a checkpoint to start from, which fine-tuning needs.
        markdown: where else than in the output to put the Markdown report.
    """
    chosen = choose(names)
    bench = Bench.of(data, recipes, weights, seeds)
    output, console = Path(output), Console()
    here = {name: ENTRIES[name] for name in chosen if ENTRIES[name].suits(bench)}
    trials = {name: entry.trials(bench) for name, entry in here.items()}
    runs = _train(trials.values(), output / "runs", workers, console)
    results: dict[str, Result | None] = {}
    for name in chosen:
        if name not in here:
            results[name] = None
            console.print(f"  {name}: needs more than is here, see the report", highlight=False)
            continue
        study = Study(
            bench, trials[name], [runs[t.key] | _tags(t) for t in trials[name]], output / "runs"
        )
        result = results[name] = _measure(name, here[name], study, output / "results")
        console.print(f"  {name}: {MARKS[result.shows]}", highlight=False)
    page = make_page(results, bench)
    written = [
        page.write(output / "report.html"),
        page.write_markdown(markdown or output / "report.md"),
    ]
    console.print("Look at " + " and ".join(str(path) for path in written), highlight=False)
    return 0


def _tags(trial: Trial) -> Run:
    """A result is shared by every trial of the same settings; its label is that of this one."""
    return {"label": trial.label, **trial.tags}


def _train(
    needed: Iterable[Sequence[Trial]], folder: Path, workers: int | None, console: Console
) -> dict[str, Run]:
    """The results of all runs by key, with a bar that says what was trained last."""
    trials = list({trial.key: trial for found in needed for trial in found}.values())
    if not trials:
        return {}
    firsts = {f.key: f for trial in trials if (f := trial.first_stage) is not None}
    every = {**firsts, **{trial.key: trial for trial in trials}}
    bar = Progress(
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=console,
    )
    with bar:
        task = bar.add_task("", total=len(every))

        def on_event(event: Event) -> None:
            trial = every[event.key]
            text = f"{trial.label}, seed {trial.tags['seed']}"
            if event.record is not None:
                text += f", epoch {event.record['epoch'] + 1}"
            bar.update(task, advance=int(event.done), description=text)

        results = run_trials(trials, folder, workers=workers, on_event=on_event)
    return {trial.key: result for trial, result in zip(trials, results, strict=True)}


def _measure(name: str, entry: Entry, study: Study, folder: Path) -> Result:
    """The result from its file, if it was made from the same by the same; else measured and kept."""
    key = _key(name, {"runs": [t.key for t in study.trials], "depends": entry.depends()})
    stem = name.replace(":", "-")
    file = folder / f"{stem}-{key}.json"
    if file.is_file():
        try:
            return Result.from_json(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(
                f"{file} is damaged ({error}); remove it, and it is made anew"
            ) from error
    result = entry.compute(study)
    write_atomically(file, result.to_json())
    if result.records:
        write_records(result.records, folder / f"{stem}.csv")
    return result


def _key(name: str, made_from: Mapping[str, object]) -> str:
    """A hash of everything that a result depends on, our own code of it included."""
    versions = [rootpool.__version__, str(torch.__version__), _source()]
    text = json.dumps([name, versions, made_from], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def _source() -> str:
    """A hash of the code in this package: another verdict is another result."""
    found = hashlib.sha256()
    folders = [resources.files(__package__)]
    while folders:
        for item in sorted(folders.pop().iterdir(), key=lambda item: item.name):
            if item.is_dir():
                folders.append(item)
            elif item.name.endswith((".py", ".yaml")):
                found.update(item.read_bytes())
    return found.hexdigest()
