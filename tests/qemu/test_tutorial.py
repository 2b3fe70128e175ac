# SPDX-License-Identifier: BSD-2-Clause
"""The commands of some documents are run, and what they print is compared with what is printed there.

A fenced block ```console is run: lines that start with "$ " are commands ("> " continues one), the lines below are
what they print, standard output and errors together. All blocks of a document share one shell, in a folder that
looks like the checkout. A block that is marked as not run is left out (`tests/support/pages.py`).

In the printed lines, `...` stands for anything, on a line of its own for any number of lines. Numbers of four
digits and more may be off by a tenth: sizes and instruction counts depend on the versions of compiler and
packages. So a number may have fewer digits, and how many spaces there are does not count. Empty lines do not
count, nor does progress, which depends on the machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from host_tools.vgpu import build
from tests.support.bare_metal import COMPILER, require
from tests.support.pages import RUN, blocks
from tests.support.places import CHECKOUT
from tests.support.processes import without_progress

# With `make test` the sessions of README and of the tutorial. What the others show, other tests show without the
# pages: tests/emulated/test_audit_firmware.py, test_evidence.py of logs, test_trust.py and test_encryption.py of
# keys, tests/extras/publish.
ALWAYS = ("README.md", "docs/TUTORIAL.md")
MARK = "----- end of command, status "
TIMEOUT_S = 600
NUMBER = re.compile(r"(?<![\w.])(\d[\d,]{3,})(?![\w.])")
NUMBER_TOLERANCE = 0.1


@dataclass
class Command:
    """A command of a document, its line there, and the lines below it."""

    line: int
    text: str
    printed: list[str] = field(default_factory=list)


def commands(document: str) -> list[Command]:
    """The commands of all blocks that are run."""
    found: list[Command] = []
    for block in blocks(document):
        if block.kind == "console" and "not run" not in block.marks:
            for number, line in block.rows:
                if line.startswith("$ "):
                    found.append(Command(number, line[2:]))
                elif line.startswith("> ") and not found[-1].printed:
                    found[-1].text += "\n" + line[2:]
                elif line.strip():
                    found[-1].printed.append(line.rstrip())
    return found


def run(rows: list[Command], checkout: Path) -> list[list[str]]:
    """Run the commands in one shell; for each the lines that it printed."""
    script = "".join(f'{row.text}\nstatus=$?; printf "\\n{MARK}%d\\n" $status; (exit $status)\n' for row in rows)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=checkout,
        env={**os.environ, "PATH": path, "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    pieces = re.split(rf"^{MARK}\d+$", done.stdout, flags=re.MULTILINE)[:-1]
    assert len(pieces) == len(rows), f"the shell ended early:\n{done.stdout}"
    return [[line.rstrip() for line in without_progress(piece) if line.strip()] for piece in pieces]


def is_like(expected: str, found: str) -> bool:
    """Whether one line is what the document says."""
    expected, found = (" ".join(line.split()) for line in (expected, found))
    numbers = NUMBER.findall(expected)
    pattern = ".*".join(
        r"([\d,]+)".join(re.escape(part) for part in NUMBER.split(piece)[::2]) for piece in expected.split("...")
    )
    match = re.fullmatch(pattern, found)
    return match is not None and all(
        abs(value(one) - value(two)) <= NUMBER_TOLERANCE * value(one)
        for one, two in zip(numbers, match.groups(), strict=True)
    )


def value(number: str) -> int:
    """The number that 1,234 stands for."""
    return int(number.replace(",", "") or 0)


def matches(expected: list[str], found: list[str]) -> bool:
    """Whether the printed lines are what the document says."""
    if not expected:
        return not found
    if expected[0].strip() == "...":
        return any(matches(expected[1:], found[skip:]) for skip in range(len(found) + 1))
    return bool(found) and is_like(expected[0], found[0]) and matches(expected[1:], found[1:])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.exhaustive) for name in RUN]
)
def test_commands_print_what_the_document_says(name: str, tmp_path: Path) -> None:
    for program, package in ((build.QEMU, "qemu-system-arm"), (COMPILER, "gcc-aarch64-linux-gnu")):
        require(program, package)
    require("make", "make")
    (tmp_path / "host_tools").symlink_to(CHECKOUT / "host_tools")
    rows = commands((CHECKOUT / name).read_text(encoding="utf-8"))
    assert len(rows) > 5
    wrong = [
        f"{name}, line {row.line}: {row.text}\n--- expected\n" + "\n".join([*row.printed, "--- found", *found])
        for row, found in zip(rows, run(rows, tmp_path), strict=True)
        if not matches(row.printed, found)
    ]
    assert not wrong, "\n\n".join(wrong)
    shutil.rmtree(tmp_path / "build")


@pytest.mark.parametrize(
    ("expected", "found", "like"),
    [
        ("14 jobs", "14 jobs", True),
        ("14 jobs", "15 jobs", False),
        ("verify 9,089,000, load 48,799,000", "verify 9,088,000, load 44,000,000", True),
        ("verify 9,089,000", "verify 8,089,000", False),
        (" 10056  ...  crypto library", "   9752   553  crypto library", True),
        ("key 12345678 ...", "key 12345679 at the end", True),
        ("key ... end", "key 0ab3 end", True),
        ("key ... end", "key 0ab3 ended", False),
        ("0x00001000", "0x00001001", False),
        ("linux 6.12.107", "linux 6.12.108", False),
        ("sum (a*)", "sum aaa", False),
    ],
)
def test_comparison_of_lines(expected: str, found: str, like: bool) -> None:
    assert is_like(expected, found) is like


def test_comparison_of_outputs() -> None:
    assert matches(["a", "...", "d"], ["a", "b", "c", "d"])
    assert matches(["..."], [])
    assert not matches(["a", "...", "d"], ["a", "b", "c"])
    assert not matches([], ["Traceback"])
    assert not matches(["a"], [])


def test_blocks_of_a_document() -> None:
    text = "$ no\n```console\n$ one \\\n> two\nout\n\n$ three\n```\n"
    text += "<!-- not run: it is large -->\n```console\n$ four\n```\n```sh\n$ five\n```\n"
    assert commands(text) == [Command(3, "one \\\ntwo", ["out"]), Command(7, "three")]
