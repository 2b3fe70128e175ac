# SPDX-License-Identifier: BSD-2-Clause
"""Where a conversation can run: on the virtual GPU, or on a machine that boots.

On the virtual GPU the model stays loaded, so that one conversation has many questions. A machine that boots
answers one: all its replays are known before it starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.api.replaying import Subject, replayed
from host_tools.extras.gguf.conversation import CHOSEN, GIVEN, LEFT, NONE_GIVEN, Say, answered
from host_tools.extras.gguf.plan import SETTINGS
from host_tools.model.interpreter import Interpreter
from host_tools.runners.watching import EnoughError
from trace_format.errors import GramophoneError, SlotError


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
        answered(self._next, given, most, say)

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
