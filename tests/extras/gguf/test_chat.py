# SPDX-License-Identifier: BSD-2-Clause
"""A conversation on a device that says what a test wants; a real one is in tests/qemu/test_gguf.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from host_tools.extras.gguf.conversation import Conversation, Say
from host_tools.extras.gguf.file import Head
from host_tools.extras.gguf.file_words import words_of
from host_tools.extras.gguf.words import Words
from tests.support import gguf_models

WORDS: Words = words_of(Head(gguf_models.words(), {}, 0))
END = 257


@dataclass
class Told:
    """A device that has its answers."""

    answers: list[list[int]]
    given: list[list[int]] = field(default_factory=list)

    def answer(self, given: Sequence[int], most: int, say: Say) -> None:
        self.given.append(list(given))
        for token in self.answers.pop(0)[:most]:
            if say(token):
                return


def test_questions_and_answers() -> None:
    """An answer's last token is given with the next question, since the device chose it, but did not take it."""
    device, parts = Told([[*WORDS.encode("the éß"), END, 5], [*WORDS.encode("an"), END]]), list[str]()
    talk = Conversation(WORDS, device, parts.append, 64)
    talk.ask("one")
    assert (talk.answers, talk.ended) == (["the éß"], "end")
    assert "".join(parts) == "the éß"
    talk.ask("two")
    assert talk.answers == ["the éß", "an"]
    assert device.given[0] == WORDS.question("one", is_first=True)
    assert device.given[1] == [END, *WORDS.question("two", is_first=False)]
    assert talk.tokens == len(WORDS.encode("the éß")) + len(WORDS.encode("an"))


def test_an_answer_that_is_cut_off() -> None:
    """Half a character is said as such, at the end; the token that was chosen last is given next time."""
    letters = [WORDS.encode("ß")[0], *WORDS.encode("a")]
    device, parts = Told([letters[:1], [END]]), list[str]()
    talk = Conversation(WORDS, device, parts.append, 1)
    talk.ask("one")
    assert (talk.answers, talk.ended, parts) == (["\ufffd"], "tokens", ["", "\ufffd"])
    talk.ask("two")
    assert device.given[1][0] == letters[0]


def test_no_position_left() -> None:
    talk = Conversation(WORDS, Told([[*WORDS.encode("an"), -1]]), lambda _: None, 9)
    talk.ask("one")
    assert (talk.answers, talk.ended) == (["an"], "positions")
