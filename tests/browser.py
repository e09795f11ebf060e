"""A page as headless Chromium sees it, after its scripts have run."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars")


def dom(page: Path) -> str:
    """The document after loading, as HTML; skips the test where there is no Chromium."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program, *FLAGS, f"--user-data-dir={profile}", "--virtual-time-budget=5000"]
        command += ["--dump-dom", page.resolve().as_uri()]
        return subprocess.run(
            command, capture_output=True, encoding="utf-8", timeout=120, check=True
        ).stdout
