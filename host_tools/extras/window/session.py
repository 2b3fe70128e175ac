# SPDX-License-Identifier: BSD-2-Clause
"""What a window shows: a trace, perhaps a second one, and what has been computed of them so far.

Nothing is computed before a page needs it. Shaders run in a sandbox, and of what they computed little is kept:
`KEPT` jobs with `operands.MOST` tensors on each side, each cut to `operands.MOST_BYTES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import zip_longest
from typing import Any

from numpy.typing import NDArray

from host_tools.accesses import job_buffers
from host_tools.accesses.job_buffers import Digest
from host_tools.audit.report import facts
from host_tools.audit.report.collect import Asked, chosen_values, collect
from host_tools.audit.report.page import page
from host_tools.extras.window import operands
from host_tools.extras.window.operands import Operands
from host_tools.vgpu import confined
from trace_format.trace import Trace

KEPT = 4  # jobs whose operands are kept
KEPT_VALUES = "recorded", "zeros"  # origins of values that each trace has by itself


class Subject:
    """One trace and the values of its slots, which the sandbox makes: a slot may be of gigabytes."""

    def __init__(self, asked: Asked, trace: Trace) -> None:
        self.asked, self.trace = asked, trace
        self.valued = self  # whose slots' values it takes
        self.facts, self.origins = confined.call(
            lambda: (
                collect(replace(asked, run=False), trace),
                chosen_values(trace, asked.values, asked.files)[1],
            ),
            tuple[facts.Report, dict[str, str]],
        )
        self.operands = lru_cache(KEPT)(self._operands)

    def _values(self) -> Mapping[str, NDArray[Any]]:
        valued = self.valued
        return chosen_values(valued.trace, valued.asked.values, valued.asked.files)[0]

    def _operands(self, job: int) -> Operands:
        return confined.call(lambda: operands.of_job(self.trace, self._values(), job), Operands)

    @cached_property
    def digests(self) -> list[Digest]:
        """What each job writes, of those that write."""
        return confined.call(lambda: job_buffers.digests(self.trace, self._values()), list[Digest])

    @cached_property
    def report(self) -> str:
        """The page of `gramophone report`, with its run."""
        return page(confined.call(lambda: collect(self.asked, self.trace), facts.Report))


@dataclass(frozen=True)
class Pair:
    """Jobs of two traces that write, in their order; None: this trace has fewer."""

    one: Digest | None
    other: Digest | None

    @property
    def same(self) -> bool:
        """Whether both write the same bytes."""
        one, other = self.one, self.other
        return one is not None and other is not None and (one.bytes, one.sha256) == (other.bytes, other.sha256)


class Session:
    """A trace and, for comparing, another one that takes the same values.

    Raises:
        GramophoneError: a slot that has a value is missing in the other trace.
    """

    def __init__(self, subject: Subject, other: Subject | None = None) -> None:
        self.subject, self.other = subject, other
        if other is not None:
            given = [name for name, origin in subject.origins.items() if origin not in KEPT_VALUES]
            job_buffers.check_same_slots(subject.trace, other.trace, given, other.asked.file)
            other.valued = subject

    @cached_property
    def pairs(self) -> list[Pair]:
        """Jobs of both, one beside the other."""
        assert self.other is not None
        return [Pair(*both) for both in zip_longest(self.subject.digests, self.other.digests)]
