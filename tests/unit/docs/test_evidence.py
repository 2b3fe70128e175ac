# SPDX-License-Identifier: BSD-2-Clause
"""docs/EVIDENCE.md: what it names exists, every promise rests on something, the tests of THREATS are there."""

from __future__ import annotations

import re

from tests.support.places import CHECKOUT
from tests.unit.docs.test_docs import TEST, text_of

EVIDENCE, THREATS = (text_of(CHECKOUT / "docs" / f"{name}.md") for name in ("EVIDENCE", "THREATS"))
ROWS = [line.strip("| \n").split(" | ") for line in EVIDENCE.splitlines() if re.match(r"\| (?!promise|-)", line)]
COMMAND = re.compile(r"`make ([a-z-]+)`")


def test_every_promise_rests_on_something() -> None:
    assert len(ROWS) > 15
    for promise, shown_by, *_ in ROWS:
        assert TEST.search(shown_by) or COMMAND.search(shown_by), promise
    assert len({row[0] for row in ROWS}) == len(ROWS)


def test_commands_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), flags=re.MULTILINE))
    targets |= set(
        re.findall(r"^([a-z-]+):", (CHECKOUT / "tee_replayer/firmware/Makefile").read_text(), re.MULTILINE)
    )
    named = {name for text in (EVIDENCE, THREATS) for name in COMMAND.findall(text)}
    assert named - targets == set()


def test_no_figure_is_missing() -> None:
    assert not re.search(r"@\w+@", EVIDENCE)


def test_what_threats_rests_on_is_here() -> None:
    """Those of devices and images; hostile files on the host are THREATS' own subject."""
    devices, _, rest = THREATS.partition("### A hostile file on the host")
    images = rest.partition("### An image")[2]
    ours = {file for text in (devices, images) for file, _ in TEST.findall(text)}
    here = {file for file, _ in TEST.findall(EVIDENCE)}
    assert len(ours) > 15
    assert {file for file in ours - here if not file.startswith("tests/support")} == set()
