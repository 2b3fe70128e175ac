# SPDX-License-Identifier: BSD-2-Clause
"""A document names no bench that no test runs, and no argument that a bench does not take."""

from __future__ import annotations

import contextlib
import io
import re
import sys

import pytest

from tests.bench.__main__ import SUBJECTS
from tests.support import benches
from tests.support.benches import LIKE, PACKAGE, SMOKE
from tests.support.places import CHECKOUT

NAMED = benches.named()
COMMANDS = sorted({command for commands in NAMED.values() for command in commands})


def test_the_documents_name_benches() -> None:
    assert {"EVIDENCE.md", "SPEED.md", "BREADTH.md", "FARM.md", "TIME.md"} <= NAMED.keys()
    assert len(COMMANDS) > 30


@pytest.mark.parametrize(("module", "words"), COMMANDS)
def test_a_bench_that_a_document_names_has_a_run(module: str, words: str) -> None:
    assert [key for key in benches.keys(module, words) if key not in SMOKE.keys() | LIKE.keys()] == []


@pytest.mark.parametrize(("module", "words"), [command for command in COMMANDS if command[1]])
def test_a_bench_takes_what_a_document_gives_it(module: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [module, *words.split(), "--help"])
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), pytest.raises(SystemExit) as ended:
        benches.main_of(module)()
    assert ended.value.code == 0, said.getvalue()


def test_every_subject_and_every_program_has_a_run() -> None:
    programs = {
        re.sub(r"\.__main__$", "", ".".join(path.relative_to(CHECKOUT).with_suffix("").parts))
        for path in (CHECKOUT / "tests/bench").rglob("*.py")
        if re.search(r"^def main\(.*\n(?:.*\n)+if __name__", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    started_by_others = {"tests.bench.usage"}
    assert len(programs) > 15
    assert programs - {PACKAGE} - SMOKE.keys() == started_by_others
    assert set(SUBJECTS) - SMOKE.keys() - LIKE.keys() == set()
    assert set(LIKE.values()) <= SMOKE.keys()


def test_a_row_is_needed() -> None:
    named = {key for command in COMMANDS for key in benches.keys(*command)}
    assert {key.split()[0] for key in SMOKE.keys() | LIKE.keys()} <= named | set(SUBJECTS) | {
        "tests.bench.size_diff"
    }
