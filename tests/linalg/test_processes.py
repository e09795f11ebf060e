"""The pool of threads in forked processes, in loaders, and while the interpreter exits."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = [pytest.mark.cpu, pytest.mark.slow]
PATIENCE = 120  # seconds; a test that needs them all has found a deadlock


def run_program(text, tmp_path):
    path = tmp_path / "program.py"  # spawn needs a main module that is a file
    path.write_text(textwrap.dedent(text))
    return subprocess.run(
        [sys.executable, "-W", "ignore", path],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
def test_forked_processes_and_loaders_of_both_kinds(tmp_path):
    result = run_program(
        """
        import os, sys, threading
        import torch
        from torch.utils.data import DataLoader, Dataset
        from rootpool.linalg import eigh

        class Covariances(Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, k):
                return eigh(A[k]).eigenvalues

        def two_threads(worker):  # so that a worker has a pool of its own; torch gives it one thread
            torch.set_num_threads(2)

        A = torch.randn(4, 32, 70, 70, generator=torch.Generator().manual_seed(0))
        A = A + A.mT

        if __name__ == "__main__":
            torch.set_num_threads(2)
            here = [Covariances()[k] for k in range(4)]  # starts the pool in the parent
            for context in ("fork", "spawn"):
                loader = DataLoader(
                    Covariances(),
                    1,
                    num_workers=1,
                    multiprocessing_context=context,
                    worker_init_fn=two_threads,
                )
                there = [batch[0] for batch in loader]
                assert all(map(torch.allclose, here, there)), context
            stop = threading.Event()

            def busy():  # the pool is at work while the process forks
                while not stop.is_set():
                    eigh(A[0])

            thread = threading.Thread(target=busy)
            thread.start()
            for _ in range(2):
                child = os.fork()  # keeps the setting of two threads, but none of the threads
                if child == 0:
                    same = torch.allclose(Covariances()[1], here[1]) and torch.get_num_threads() == 2
                    sys.exit(0 if same else 1)  # through all that Python does at an exit
                assert os.waitpid(child, 0)[1] == 0
            stop.set()
            thread.join()
            print("done")
        """,
        tmp_path,
    )
    assert result.stdout == "done\n", result.stderr
    assert result.returncode == 0


def test_the_interpreter_exits_cleanly(tmp_path):
    """With a daemon thread at work, which leaves, and with work after the end of the main thread."""
    result = run_program(
        """
        import atexit, threading
        import torch
        from rootpool.linalg import eigh

        torch.set_num_threads(2)
        A = torch.randn(32, 70, 70, generator=torch.Generator().manual_seed(0))
        A = A + A.mT
        expected = eigh(A).eigenvalues

        def report():
            print(torch.allclose(eigh(A).eigenvalues, expected), torch.get_num_threads())

        def last():
            threading.main_thread().join()
            report()

        def forever():  # left alone, it would be ended inside torch, which aborts the process
            while True:
                eigh(A)

        def left():
            daemon.join(60)
            print(not daemon.is_alive(), torch.get_num_threads())

        daemon = threading.Thread(target=forever, daemon=True)
        daemon.start()
        threading.Thread(target=last).start()
        atexit.register(report)
        atexit.register(left)
        """,
        tmp_path,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "True 2\n" * 3
