# SPDX-License-Identifier: BSD-2-Clause
"""`make screenshot`: docs/report.png, the picture of a report that the README shows.

The report is that of the committed LeNet recording: built, signed with a key made for the purpose, and run on the
virtual GPU. Chromium takes the picture, without a window and without a network.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from host_tools.audit.report.pdf import OPTIONS, browser
from host_tools.support import programs
from host_tools.support.files import write_atomically
from trace_format.errors import GramophoneError

CHECKOUT = Path(__file__).resolve().parents[1]
RECORDING = CHECKOUT / "host_tools/demo/lenet/lenet.raw.gtr"
TARGET = CHECKOUT / "docs/report.png"
# Of the window in CSS pixels: down to the network's first layers. Then smaller, for the size of the file.
WIDTH, HEIGHT, SCALE = 1100, 1850, 0.8
MAX_BYTES = 200_000
TIMEOUT_S = 300.0
COMMANDS = (
    ("build", str(RECORDING), "-o", "lenet.gtr"),
    ("key", "new", "-o", "key.pem"),
    ("key", "public", "key.pem", "-o", "pub.pem"),
    ("sign", "lenet.gtr", "--signing-key", "key.pem", "-o", "lenet.sgtr"),
    ("report", "lenet.sgtr", "--key", "pub.pem", "-o", "lenet.html"),
)


def report(folder: Path) -> Path:
    """The page, made in a folder with the commands of the tour.

    Raises:
        GramophoneError: a command failed; the message has its last words.
    """
    for words in COMMANDS:
        command = [sys.executable, "-m", "host_tools.cli", *words, "-q"]
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        done = programs.run(command, timeout_s=TIMEOUT_S, merged=True, cwd=folder, env=environment)
        if done.returncode:
            raise GramophoneError(f"{words[0]} failed with status {done.returncode}: {done.stdout.strip()}")
    return folder / "lenet.html"


def screenshot(page: Path, target: Path) -> bytes:
    """A picture of the page's top, as PNG.

    Raises:
        GramophoneError: there is no browser, or it took no picture, or one that is too large for the README.
    """
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's own refuses to run as root
    command = [
        browser(),
        *OPTIONS,
        *sandbox,
        f"--user-data-dir={target.parent / 'profile'}",
        "--hide-scrollbars",
        f"--window-size={WIDTH},{HEIGHT}",
        f"--force-device-scale-factor={SCALE}",
        f"--screenshot={target}",
    ]
    done = programs.run([*command, page.as_uri()], timeout_s=TIMEOUT_S, merged=True)
    if done.returncode or not target.is_file():
        raise GramophoneError(f"{command[0]} took no picture (exit status {done.returncode})")
    data = target.read_bytes()
    if len(data) > MAX_BYTES:
        raise GramophoneError(f"the picture: expected at most {MAX_BYTES} bytes, found {len(data)}")
    return data


def main() -> int:
    """Make docs/report.png; exit status 0, or 2 when that was not possible."""
    try:
        with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
            data = screenshot(report(Path(name)), Path(name) / "report.png")
        write_atomically(TARGET, data)
    except GramophoneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{TARGET.relative_to(CHECKOUT)}: {len(data)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
