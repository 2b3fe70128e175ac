# SPDX-License-Identifier: BSD-2-Clause
"""The installed programs, as a user runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

IMPORTED = re.compile(r"import time:.*\| *(\S+)")


def run(*arguments: str) -> tuple[int, str, set[str]]:
    """Python with arguments: its exit status, what it prints, and the names of the modules that it imports."""
    command = [sys.executable, "-X", "importtime", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, set(IMPORTED.findall(done.stderr))


def program(name: str) -> str:
    """Path of an installed program."""
    return str(Path(sys.executable).with_name(name))
