"""What a pass is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trace_format.trace import Trace


@dataclass(frozen=True)
class Pass:
    """A named function Trace -> Trace; `what` is one line for people."""

    name: str
    what: str
    apply: Callable[[Trace], Trace]

    def __call__(self, trace: Trace) -> Trace:
        """Apply the pass."""
        return self.apply(trace)


def trace_pass(name: str) -> Callable[[Callable[[Trace], Trace]], Pass]:
    """Make the decorated function a pass; the first line of its documentation says what it does."""

    def register(function: Callable[[Trace], Trace]) -> Pass:
        return Pass(name, (function.__doc__ or "").splitlines()[0], function)

    return register
