# SPDX-License-Identifier: BSD-2-Clause
"""Warnings are errors in the tests, and nowhere that a user compiles."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.support.places import CHECKOUT

PRINT = (
    "from host_tools.vgpu.build import CFLAGS; from tee_replayer.generator import strictness as s; "
    "print(CFLAGS, s.WARNINGS)"
)


def test_warnings_are_errors_only_where_we_develop() -> None:
    for value, count in (("1", 2), ("", 0)):
        environment = {**os.environ, "GRAMOPHONE_WERROR": value}
        command = [sys.executable, "-c", PRINT]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.count("'-Werror'") == count
    assert os.environ["GRAMOPHONE_WERROR"], "as this is a test"


def test_no_other_file_makes_them_errors() -> None:
    folders = ("host_tools", "tee_replayer", "baremetal")
    texts = {
        path: path.read_text(errors="replace")
        for name in folders
        for path in (CHECKOUT / name).rglob("*")
        if path.is_file() and path.suffix in (".py", ".mk", ".h", "")
    }
    named = [
        path.relative_to(CHECKOUT).as_posix()
        for path, text in texts.items()
        if re.search(r'"-Werror|^[A-Z_]+ .*-Werror', text, re.MULTILINE)
    ]
    assert named == ["tee_replayer/generator/strictness.py"]
