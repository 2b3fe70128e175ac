# SPDX-License-Identifier: BSD-2-Clause
"""Every room says what is in it, what is not, and where to begin; a newcomer's questions lead to their answers."""

from __future__ import annotations

import re

import pytest

from tests.support import rooms
from tests.support.places import CHECKOUT

# Single scripts beside what they are about; no module imports them.
NO_ROOMS = {"tee_replayer/firmware", "tee_replayer/linux", "tests/qemu/iree", "tests/unit/signing/vectors"}
QUESTION = re.compile(r"^\| ([^|]+\?) \| ([\w ]+) \| ((?:`[\w./]+`(?:, )?)+) \|$", re.MULTILINE)


def text(path: str) -> str:
    """A file of the checkout."""
    return (CHECKOUT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("room", sorted(set(rooms.rooms()) - NO_ROOMS - {"docs"}))
def test_a_room_says_what_is_in_it(room: str) -> None:
    said = rooms.read(text(f"{room}/__init__.py"))
    assert len(said.inside) > 60
    assert (CHECKOUT / room / said.first).is_file(), said.first


@pytest.mark.parametrize(
    "source",
    [
        "",
        '"""Things."""',
        '"""Things.\n\nNot in here: others.\n"""',
        '"""Things.\n\nRead first: a\n\nNot in here: b"""',
    ],
)
def test_a_room_that_says_less_is_found(source: str) -> None:
    with pytest.raises(ValueError, match="Read first"):
        rooms.read(source)


def answers(word: str, path: str) -> bool:
    """Whether a file's name has the word, or the first paragraph of its room."""
    name = path.rpartition("/")[2].replace("_", " ")
    inside = rooms.read(text(f"{rooms.room_of(path)}/__init__.py")).inside
    return word in name or word in inside


def test_questions_of_a_newcomer_lead_to_files() -> None:
    questions = QUESTION.findall(text("docs/DESIGN.md"))
    assert len(questions) >= 10
    for question, word, files in questions:
        for path in re.findall(r"`([^`]+)`", files):
            assert (CHECKOUT / path).is_file(), path
            assert answers(word, path), f"{question}: neither {path} nor its room's first paragraph says {word!r}"
    assert not answers("teapot", "host_tools/commands/replay.py")
