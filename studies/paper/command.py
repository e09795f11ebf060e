"""``python -m studies paper``: train and measure what has no result yet, and write the report."""

from __future__ import annotations

import functools
import hashlib
import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rootpool.train.jobs import Event

import rootpool
from rootpool.files import write_atomically
from rootpool.report import Page
from rootpool.report.records import read_json, read_records, to_json, write_records

from .entries import choose
from .entry import Entry
from .plan import Measured, Plan, Run, named_methods
from .recorded import add_record, recorded_verdicts
from .report import MARKS, make_page
from .result import Result

if TYPE_CHECKING:
    from rootpool.train.study import Trial

__all__ = ["measure_entries", "paper", "show_entries", "train", "write_page"]

COLOURS = {"supported": "green", "contradicted": "red", "inconclusive": "yellow"}


def show_entries(names: Sequence[str] = ()) -> int:
    """Print the name of each entry, with its title, its claim and our recorded verdicts below."""
    console = Console(highlight=False)
    for entry in choose(names):
        console.print(f"[bold]{entry.name}[/]", soft_wrap=True)
        for text in (entry.title, entry.claim):
            for line in textwrap.wrap(text, max(40, console.width - 4)):
                console.print(f"    {line}", markup=False)
        for network, word in recorded_verdicts(entry.name).items():
            console.print(f"    {MARKS[word]} {word}, {network}")
    return 0


def main(entries: Sequence[str], *, show: bool = False, **options: Any) -> int:
    """Measure entries of the paper, or list them."""
    return show_entries(entries) if show else paper(entries, **options)


def paper(
    names: Sequence[str] = (),
    *,
    output: str | Path = "runs/paper",
    runs: str | Path | None = None,
    seeds: int = 3,
    methods: Sequence[str] | None = None,
    workers: int | None = None,
    data: str | None = None,
    recipes: str | None = None,
    weights: str | None = None,
    markdown: str | Path | None = None,
    record: str | Path | None = None,
) -> int:
    """Measure entries, or what is left of them; write ``index.html``, ``report.md``, ``results.json``.

    Args:
        names: entries, or kinds of entries; all by default.
        output: folder of the results and the report.
        runs: folder of the trainings, which commands can share; by default in the output.
        seeds: repetitions of every training.
        methods: those to compare, or ``["all"]``; by default those of each entry, and ours.
        workers: trainings at a time; None for one per core.
        data: a folder of images instead of the embedded ones.
        recipes: the family of recipes; by default what the layout of the data says.
        weights: a checkpoint to start from, which fine-tuning needs.
        markdown: where to write the Markdown report instead of the output.
        record: a file to put the verdicts into, beside those of other networks.
    """
    chosen = choose(names)
    options = {"weights": weights, "seeds": seeds, "methods": named_methods(methods)}
    plan = Plan.for_data(data, recipes, **options)
    output, console = Path(output), Console(highlight=False)
    runs = Path(runs or output / "runs")
    trained = train([t for e in chosen if e.suits(plan) for t in e.trials(plan)], runs, workers)
    results = measure_entries(chosen, plan, trained, runs, output / "results", console)
    write_page(make_page(results, plan), trained, output, markdown, console)
    if record is not None:
        add_record(Path(record), plan.family, plan.seeds, results)
    return 0


def train(needed: Iterable[Trial], folder: Path, workers: int | None = None) -> dict[str, Run]:
    """The results of all runs by key, with a bar that names the last one."""
    from rootpool.train.study import run_trials

    trials = list({trial.key: trial for trial in needed}.values())
    # Seed by seed, so that a study that is stopped has compared everything.
    trials.sort(key=lambda trial: trial.tags["seed"])
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
    )
    with bar:
        task = bar.add_task("", total=len(every))

        def on_event(event: Event) -> None:
            trial = every[event.key]
            text = f"{trial.label}, seed {trial.tags['seed']}"
            if event.record is not None:
                text += f", epoch {event.record['epoch'] + 1}"
                if "val_error" in event.record:
                    text += f": {event.record['val_error']:.1f} % error"
            bar.update(task, advance=int(event.done), description=text)

        folders = run_trials(trials, folder, workers=workers, on_event=on_event)
    return {t.key: run_record(t, folder) for t, folder in zip(trials, folders, strict=True)}


def run_record(trial: Trial, folder: Path) -> Run:
    """What the entries read of a run folder; a training that diverged at once has no records."""
    curves, spectrum = (
        read_records(folder / name) if (folder / name).is_file() else []
        for name in ("history.csv", "spectrum.csv")
    )
    result = read_json(folder / "result.json", "seconds", "classes", "diverged")
    return {
        **result,
        "label": trial.label,
        **trial.tags,
        "curves": curves,
        "spectrum": spectrum,
    }


def measure_entries(
    entries: Sequence[Entry],
    plan: Plan,
    trained: Mapping[str, Run],
    runs: Path,
    folder: Path,
    console: Console,
) -> dict[str, Result | None]:
    """Results by name of the entry, and None for those that the plan cannot make; print the verdicts."""
    results: dict[str, Result | None] = {}
    for entry in entries:
        if not entry.suits(plan):
            results[entry.name] = None
            console.print(f"  {entry.name}: – not measured, the report says what it needs")
            continue
        trials = entry.trials(plan)
        study = Measured(plan, trials, [trained[trial.key] for trial in trials], runs)
        result = results[entry.name] = _kept(entry, study, folder)
        word = result.verdict
        console.print(f"  {entry.name}: [{COLOURS[word]}]{MARKS[word]} {word}[/]")
    return results


def write_page(
    page: Page,
    trained: Mapping[str, Run],
    output: Path,
    markdown: str | Path | None,
    console: Console,
) -> None:
    """Write the page as HTML and Markdown, and the runs as JSON; print where."""
    if trained:
        write_atomically(output / "results.json", to_json(list(trained.values())))
    text = page.write_markdown(markdown or output / "report.md")
    where = page.write(output / "index.html").resolve().as_uri()
    console.print(f"Look at [bold]{where}[/], or at {text}", soft_wrap=True)


# --------------------------------------------------------------------------------------------------
# Results that are kept


def _kept(entry: Entry, study: Measured, folder: Path) -> Result:
    """The result from its file, if the same code made it from the same; else measured and kept."""
    key = _key(entry.name, {"runs": [t.key for t in study.trials], "depends": entry.depends()})
    stem = entry.name.replace(":", "-")
    file = folder / f"{stem}-{key}.json"
    if file.is_file():
        try:
            return Result.from_json(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(
                f"{file} is corrupt ({error}); delete it and it will be recomputed"
            ) from error
    result = entry.compute(study)
    write_atomically(file, result.to_json())
    if result.records:
        write_records(result.records, folder / f"{stem}.csv")
    return result


def _key(name: str, made_from: Mapping[str, object]) -> str:
    """A hash of everything that a result depends on, the code of this package included."""
    versions = [rootpool.__version__, str(torch.__version__), _source()]
    text = json.dumps([name, versions, made_from], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def _source() -> str:
    """A hash of the code in this package: other code may come to another verdict."""
    found = hashlib.sha256()
    folders = [resources.files(__package__)]
    while folders:
        for item in sorted(folders.pop().iterdir(), key=lambda item: item.name):
            if item.is_dir():
                folders.append(item)
            elif item.name.endswith((".py", ".yaml")):
                found.update(item.read_bytes())
    return found.hexdigest()
