# SPDX-License-Identifier: BSD-2-Clause
"""A page as PDF, printed by a browser without a window."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from host_tools.support import programs
from trace_format.errors import GramophoneError
from trace_format.files import read_file

BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
TIMEOUT_S = 300.0
# A profile of its own, nothing of the user's, and no network: the page needs none.
OPTIONS = (
    "--headless",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-dev-shm-usage",  # containers have little shared memory
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--no-pdf-header-footer",
)


class BrowserError(GramophoneError):
    """There is no browser, or it made no PDF."""


def browser() -> str:
    """The browser to use.

    Raises:
        BrowserError: none is on the path.
    """
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    raise BrowserError("cannot write a PDF: Chromium is not installed (apt-get install chromium)")


def pdf(page: str, program: str, timeout_s: float = TIMEOUT_S) -> bytes:
    """Print a page.

    Args:
        page: HTML that needs nothing else.
        program: from `browser`.
        timeout_s: after which the browser is ended.

    Raises:
        BrowserError: it made no PDF; the message has the browser's last words.
    """
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
        folder = Path(name)
        source, target = folder / "report.html", folder / "report.pdf"
        source.write_text(page, encoding="utf-8")
        # Chromium's own sandbox refuses to run as root.
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        command = [
            program,
            *OPTIONS,
            *sandbox,
            f"--user-data-dir={folder / 'profile'}",
            f"--print-to-pdf={target}",
        ]
        try:
            done = programs.run([*command, source.as_uri()], timeout_s=timeout_s, merged=True)
        except subprocess.TimeoutExpired:
            raise BrowserError(f"{program} made no PDF within {timeout_s:g} s") from None
        if done.returncode or not target.is_file():
            last = (done.stdout.strip().splitlines() or ["it said nothing"])[-1]
            raise BrowserError(f"{program} made no PDF (exit status {done.returncode}): {last}")
        return read_file(target)
