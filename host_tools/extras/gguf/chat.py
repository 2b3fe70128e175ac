# SPDX-License-Identifier: BSD-2-Clause
"""A conversation with a recorded language model: questions become tokens, and the device chooses the next ones.

On the virtual GPU the model stays loaded, so that one conversation has many questions. A machine that boots
answers one: all its replays are known before it starts.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from host_tools.api.replaying import Subject, replayed
from host_tools.extras.gguf.plan import CHOSEN, GIVEN, LEFT, SETTINGS
from host_tools.extras.gguf.words import Words
from host_tools.model.interpreter import Interpreter
from host_tools.runners.watching import EnoughError
from trace_format.errors import GramophoneError, SlotError

NONE_GIVEN = -1  # in place of a token of the caller's: the one that was chosen last
Say = Callable[[int], bool]  # takes a token of the answer; whether that is enough


class Device(Protocol):
    """Where a model runs."""

    def answer(self, given: Sequence[int], most: int, say: Say) -> None:
        """Give it tokens, and say those that it chooses then, until that is enough or there are `most`.

        Raises:
            GramophoneError: a replay was refused or failed.
        """


def check_decoder(subject: Subject) -> None:
    """SlotError: a trace is none of a language model."""
    names = {slot.name for slot in subject.trace.slots} if subject.trace else set()
    if missing := sorted({GIVEN, *SETTINGS, CHOSEN, LEFT} - names):
        raise SlotError(f"{subject.file}: not a language model: no slot {missing[0]}")


def settings(**changed: float) -> dict[str, NDArray[Any]]:
    """Values of the slots that are the same for all tokens: those of SETTINGS, or others in their place."""
    return {name: np.array([changed.get(name, value)], value.dtype) for name, value in SETTINGS.items()}


@dataclass(frozen=True)
class OnVgpu:
    """The virtual GPU of this process, for a trace that was verified."""

    run: Interpreter
    settings: Mapping[str, NDArray[Any]]

    def answer(self, given: Sequence[int], most: int, say: Say) -> None:
        """As Device."""
        chosen = NONE_GIVEN
        for token in given:
            chosen = self._next(token)
        for _ in range(most - 1):
            if say(chosen):
                return
            chosen = self._next(NONE_GIVEN)
        say(chosen)

    def _next(self, token: int) -> int:
        left = self.run.run({GIVEN: np.array([token], np.int32), **self.settings})
        return int(left[CHOSEN].reshape(-1)[0])


@dataclass(frozen=True)
class OnMachine:
    """A machine that boots, of `runners.RUNNERS`."""

    runner: str
    subject: Subject
    settings: Mapping[str, NDArray[Any]]
    options: Mapping[str, Any] = field(default_factory=dict)

    def answer(self, given: Sequence[int], most: int, say: Say) -> None:
        """As Device."""
        tokens = np.array([*given, *[NONE_GIVEN] * (most - 1)], np.int32).reshape(-1, 1)

        def watch(number: int, outputs: Mapping[str, bytes]) -> bool:
            return number >= len(given) - 1 and say(int(np.frombuffer(outputs[CHOSEN], np.int32)[0]))

        how: dict[str, Any] = {"repeat": len(tokens), "series": {GIVEN: tokens}, "each": frozenset([CHOSEN])}
        try:
            result = replayed(self.runner, self.subject, self.settings, watch=watch, **how, **self.options)
        except EnoughError:
            return
        if not result.ok:
            raise GramophoneError(f"{self.subject.file}: refused: {result.error}")
        say(int(result.outputs[CHOSEN][-1, 0]))


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
