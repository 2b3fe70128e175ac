# SPDX-License-Identifier: BSD-2-Clause
"""A real browser without a window: what a page is after its scripts have run, and what it looks like."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from host_tools.audit.report.pdf import OPTIONS, browser
from host_tools.support import programs

TIMEOUT_S = 300
SETTLED_MS = 10_000  # of the page's own clock, which does not run while the page waits for the network
NETWORK = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
LOGGED = re.compile(r"CONSOLE[:(]\S+ (.*)")


@dataclass(frozen=True)
class Seen:
    """A page in the browser.

    Attributes:
        dom: the document, as text.
        said: what the browser said of it: errors of scripts, and what the page's policy forbade.
    """

    dom: str
    said: list[str]


def _run(words: list[str], url: str) -> Seen:
    with tempfile.TemporaryDirectory(prefix="gramophone-") as profile:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's own refuses to run as root
        options = [*OPTIONS, NETWORK, *sandbox, f"--user-data-dir={profile}", "--enable-logging=stderr"]
        command = [browser(), *options, f"--virtual-time-budget={SETTLED_MS}", *words, url]
        done = programs.run(command, timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return Seen(done.stdout, LOGGED.findall(done.stderr))


def see(url: str) -> Seen:
    """Load a page and let its scripts run."""
    return _run(["--dump-dom"], url)


def picture(url: str, target: Path, *, width: int = 1500, height: int = 950, dark: bool = False) -> None:
    """Write a picture of a page, as PNG."""
    shade = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else []
    _run([*shade, f"--window-size={width},{height}", "--hide-scrollbars", f"--screenshot={target}"], url)
