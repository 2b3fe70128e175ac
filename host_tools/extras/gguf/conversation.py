# SPDX-License-Identifier: BSD-2-Clause
"""A conversation with a recorded language model: questions become tokens, and the device chooses the next ones.

It runs on devices too, in `gramophone-tee`, so it imports only Python's standard library and `words.py`.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from host_tools.extras.gguf.words import Words

# Slots of a trace: a token that is given, what says how to choose, what was chosen, how many positions are left.
GIVEN, CHOSEN, LEFT = "given", "chosen", "left"
SEED, TOP_K, TEMPERATURE, TOP_P = "seed", "top_k", "temperature", "top_p"
LIKELIEST: dict[str, int | float] = {SEED: 0, TOP_K: 0, TEMPERATURE: 0.0, TOP_P: 1.0}  # the likeliest token
NONE_GIVEN = -1  # in place of a token of the caller's: the one that was chosen last
WHY = {
    "end": "",
    "tokens": "the answer was cut off: --tokens allows more",
    "positions": "the conversation is full: 'record gguf --positions' makes room for a longer one",
}
Say = Callable[[int], bool]  # takes a token of the answer; whether that is enough


class Device(Protocol):
    """Where a model runs."""

    def answer(self, given: Sequence[int], most: int, say: Say) -> None:
        """Give it tokens, and say those that it chooses then, until that is enough or there are `most`.

        Raises:
            GramophoneError: a replay was refused or failed.
        """


def answered(replay: Callable[[int], int], given: Sequence[int], most: int, say: Say) -> None:
    """As Device.answer, where each replay waits for the one before.

    Args:
        replay: takes a token, or NONE_GIVEN; the token that was chosen.
        given, most, say: of it.
    """
    chosen = NONE_GIVEN
    for token in given:
        chosen = replay(token)
    for _ in range(most - 1):
        if say(chosen):
            return
        chosen = replay(NONE_GIVEN)
    say(chosen)


def shown(text: str) -> str:
    """A part of an answer without what a terminal would act on."""
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")


def questions(lines: Iterable[str]) -> Iterator[str]:
    """Questions, a line each, that are not empty."""
    return (line for text in lines if (line := text.strip()))


@dataclass
class Conversation:
    """Questions and answers.

    Attributes:
        words: of the model.
        device: where it runs.
        out: gets the answer's text, as it comes.
        most: tokens of an answer.
        answers: what was said, a text for each question.
        tokens: how many tokens the answers have.
        ended: why the last answer ended: "end", "tokens" or "positions".
    """

    words: Words
    device: Device
    out: Callable[[str], None]
    most: int
    answers: list[str] = field(default_factory=list)
    tokens: int = 0
    ended: str = ""
    _last: list[int] = field(default_factory=list)  # chosen, and not yet given back

    def ask(self, text: str) -> None:
        """A question; its answer is said, and kept."""
        given = [*self._last, *self.words.question(text, is_first=not self.answers)]
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        parts: list[str] = []
        self.ended = "tokens"

        def say(token: int) -> bool:
            if token < 0:
                self.ended = "positions"
                return True
            self._last = [token]
            if token in self.words.ends:
                self.ended = "end"
                return True
            self.tokens += 1
            parts.append(decoder.decode(self.words.decode(token)))
            self.out(parts[-1])
            return False

        self.device.answer(given, self.most, say)
        parts.append(decoder.decode(b"", final=True))
        self.out(parts[-1])
        self.answers.append("".join(parts))
