"""Many jobs in processes of one thread each, with results that outlive the study.

The result of a job is one file, ``<folder>/<key>/<job.result>``, which appears only when it is whole. A job
whose file is there is finished; so the same call, made again after any interruption, does what is left. The
key is a hash of the job's input (:func:`stable_key`), so a job with other input never finds that file.

Each process has a pipe of its own to the one that started it. That is why this is not a ``joblib.Parallel``
or an executor: records arrive while a job runs, a job can wait for another, a process that dies is known
together with its job and its signal, and Ctrl-C ends all of them at once.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from rootpool.files import write_atomically

__all__ = ["Event", "Job", "Report", "result_file", "run_jobs", "stable_key", "versions"]

Report = Callable[[Mapping[str, Any]], None]

LOOK_EVERY = 1.0  # seconds between two looks whether a silent process is still alive


@dataclass(frozen=True)
class Job:
    """Something to do in another process.

    Args:
        name: what an error calls it.
        work: ``work(folder, report)`` returns the content of the result file, or None if it has written
            that file. It may keep other files in ``folder``, and ``report`` sends a record to the process
            that started it. It must be possible to pickle it: a function of a module, or a
            ``functools.partial`` of one.
        result: the name of the result file.
        needs: keys of the jobs that must be finished before this one starts.
    """

    name: str
    work: Callable[[Path, Report], str | bytes | None]
    result: str = "result.json"
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Event:
    """News of a job: a record that it reported, or that its result is there."""

    key: str
    record: Mapping[str, Any] | None = None
    done: bool = False


def stable_key(content: Any) -> str:
    """A short hash of plain data: numbers, texts, lists, dictionaries, paths and dataclasses.

    Two equal inputs have the same key in every process, and in any order of their dictionaries.

    >>> stable_key({"lr": 0.1, "seed": 0}) == stable_key({"seed": 0, "lr": 0.1})
    True
    """
    text = json.dumps(content, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__name__, **asdict(value)}
    raise TypeError(
        f"a key is made from plain data, got {value!r}; use numbers, texts, lists and dictionaries"
    )


def versions() -> dict[str, str]:
    """What numbers depend on besides the settings, to be part of a key: torch and the library's code."""
    return {"torch": version("torch"), "code": code_digest()}


# The parts of the library that decide numbers; a page or a command changes none.
NUMERICAL = ("linalg", "nn", "models", "train")


@functools.cache
def code_digest(root: Path = Path(__file__).parents[1]) -> str:
    """A hash of the library's code in ``root`` without comments and docstrings, which change no number."""
    digest = hashlib.sha256()
    for part in NUMERICAL:
        for file in sorted((root / part).rglob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                body = getattr(node, "body", None)
                if isinstance(body, list):
                    node.body = [line for line in body if not _is_text(line)]  # type: ignore[attr-defined]
            digest.update(f"{file.relative_to(root).as_posix()} {ast.dump(tree)}".encode())
    return digest.hexdigest()[:16]


def _is_text(line: ast.AST) -> bool:
    """Whether a statement is a docstring."""
    return (
        isinstance(line, ast.Expr)
        and isinstance(line.value, ast.Constant)
        and isinstance(line.value.value, str)
    )


def usable_cores() -> int:
    """Cores that this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def result_file(folder: Path, key: str, job: Job) -> Path:
    """Where the result of a job is."""
    return folder / key / job.result


def run_jobs(
    jobs: Mapping[str, Job], folder: str | os.PathLike[str], *, workers: int | None = None
) -> Iterator[Event]:
    """Do every job that has no result yet, several at a time, and yield what happens.

    Jobs start in the order of the mapping, once those that they need are finished. When the iterator is
    closed, or a job fails, all processes are ended; results that are there stay.

    Args:
        jobs: by their keys.
        folder: of the results.
        workers: processes at a time; None for one per core.

    Raises:
        ChildProcessError: a process died.
        Exception: what a job raised, with the traceback of its process as the cause.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    folder = Path(folder).absolute()
    waiting = {k: job for k, job in jobs.items() if not result_file(folder, k, job).is_file()}
    finished = [key for key in jobs if key not in waiting]
    for key in finished:
        yield Event(key, done=True)
    done = set(finished)
    team = [_Worker() for _ in range(min(workers or usable_cores(), len(waiting)))]
    try:
        while waiting or any(worker.key for worker in team):
            for worker in team:
                ready = (key for key, job in waiting.items() if done.issuperset(job.needs))
                if not worker.key and (key := next(ready, "")):
                    worker.start(key, waiting.pop(key), folder)
            busy = [worker for worker in team if worker.key]
            if not busy:
                missing = sorted({need for job in waiting.values() for need in job.needs} - done)
                raise ValueError(f"jobs wait for others that never finish: {', '.join(missing)}")
            heard = wait([worker.pipe for worker in busy], timeout=LOOK_EVERY)
            for worker in busy:
                if worker.pipe in heard or worker.process.exitcode is not None:
                    event = worker.listen()
                    if event.done:
                        done.add(event.key)
                    yield event
    finally:
        for worker in team:
            worker.end()


class _Worker:
    """A process, seen from the one that started it."""

    def __init__(self) -> None:
        # Not forked: a copy of a process with threads, such as torch's, can hang.
        context = multiprocessing.get_context("spawn")
        self.pipe, far_end = context.Pipe()
        self.process = context.Process(target=_serve, args=(far_end,))
        self.process.start()
        far_end.close()
        self.key = ""  # of its job; empty when it has none
        self.name = ""

    def start(self, key: str, job: Job, folder: Path) -> None:
        self.key, self.name = key, job.name
        parcel = pickle.dumps((job.work, result_file(folder, key, job)))
        with contextlib.suppress(BrokenPipeError):  # it has died, which `listen` explains
            self.pipe.send_bytes(parcel)

    def listen(self) -> Event:
        """The next news of its job; waits for it."""
        key = self.key
        try:
            kind, content = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            raise ChildProcessError(self._explain_death()) from None
        if kind == "record":
            return Event(key, content)
        self.key = ""
        if kind == "error":
            error, trace = content
            raise error from _WorkerError(f"\n{trace}")
        return Event(key, done=True)

    def _explain_death(self) -> str:
        code = self.process.exitcode or 0
        how = (
            f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"
        )
        return (
            f"the process that worked on {self.name} {how}: often the memory was full. Run the same command "
            "again, with fewer workers if it happens again; what is finished is kept"
        )

    def end(self) -> None:
        # At once, as a power cut would: jobs only keep files that are whole.
        self.process.kill()
        self.process.join()
        self.process.close()
        self.pipe.close()


class _WorkerError(Exception):
    """The traceback of an error in another process, as text."""


def _serve(pipe: Connection) -> None:
    """Do the jobs that come through the pipe; executed in a process of its own."""
    import torch

    torch.set_num_threads(1)  # the other cores have processes of their own
    threading.Thread(target=_end_with_starter, daemon=True).start()
    # Ctrl-C in a terminal reaches every process; the one that started this one answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Processes that load images start as the system does it: spawned like this one, each of them would
    # import everything again.
    multiprocessing.set_start_method(None, force=True)
    with contextlib.suppress(EOFError, ConnectionError):  # the other end has gone
        while True:
            parcel = pipe.recv_bytes()
            try:
                work, path = pickle.loads(parcel)
                path.parent.mkdir(parents=True, exist_ok=True)
                content = work(path.parent, lambda record: pipe.send(("record", dict(record))))
                if content is not None:
                    write_atomically(path, content)
                answer: tuple[str, Any] = ("done", None)
            except Exception as error:
                answer = ("error", _portable(error))
            pipe.send(answer)


def _end_with_starter() -> None:
    """End this process when the one that started it is gone, even if that one was killed."""
    starter = multiprocessing.parent_process()
    if starter is not None:
        starter.join()
        os._exit(1)


def _portable(error: Exception) -> tuple[Exception, str]:
    """An error that can be sent to another process, and its traceback, which would get lost on the way."""
    text = "".join(traceback.format_exception(error))
    try:
        return pickle.loads(pickle.dumps(error)), text
    except Exception:  # its class cannot be pickled, or not made from its own arguments
        return RuntimeError(f"{type(error).__name__}: {error}"), text
