# SPDX-License-Identifier: BSD-2-Clause
"""What a replayer reports, in words."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trace_format.actions import ACTIONS, Op, Type
from trace_format.errors import GramophoneError
from trace_format.operands import FIELD_BITS, REGISTERS
from trace_format.profile import Profile
from trace_format.schema.report import Phase, Status

CORE = Path(__file__).resolve().parents[1] / "core"
_WITH_ACTION = {"ACTION", "REGISTER", "RANGE", "DIVERGED", "TIMEOUT", "NO_IRQ", "FAULT", "BUDGET"}
_OF_PIECES = {"READ", "CHUNK", "CODEC"}  # in a replay
_WITH_VALUES = {"IDENTITY", "DIVERGED", "TIMEOUT"}


@functools.cache
def statuses() -> Mapping[int, Status]:
    """All statuses by value."""
    return {status.value: status for status in Status}


def value_of(name: str) -> int:
    """Value of the status GR_STATUS_`name`."""
    return Status[name].value


@dataclass(frozen=True)
class Report:
    """The schema's `report`; `offset` is a register's byte offset, a slot, a line, or an index."""

    status: int
    phase: int
    action: int
    op: int
    offset: int
    expected: int
    seen: int
    retries: int
    jobs: int
    actions: int
    secure_bytes: int
    verify_us: int = 0
    load_us: int = 0
    replay_us: int = 0

    @property
    def ok(self) -> bool:
        """Whether it is a success."""
        return self.name == "OK"

    @property
    def name(self) -> str:
        """Name of the status without GR_STATUS_, or its number when there is no such status."""
        known = statuses().get(self.status)
        return known.name if known else f"{self.status:#010x}"

    def describe(self, profile: Profile) -> str:
        """One sentence: what happened, at which action, what was expected and what was seen."""
        known = statuses().get(self.status)
        text = known.text if known else f"the replayer reports an unknown status {self.status:#010x}"
        if self.name in _WITH_ACTION:
            text += f", action {self.action}: {self._action(profile)}"
        elif self.name in ("SLOTS", "UNBOUND"):
            text += f": slot {self.offset}"
        elif self.name == "PIECES" or (self.name in _OF_PIECES and self.phase != Phase.LOAD):
            text += f": piece {self.offset}" + ("" if self.name == "PIECES" else f", chunk {self.seen}")
        elif self.name in ("CHUNK", "SECTIONS", "CODEC"):
            text += f": {'section' if self.name == 'SECTIONS' else 'chunk'} {self.offset}"
        elif self.name == "POWER":
            text += f": register {self.offset:#010x}"
        if self.name in _WITH_VALUES:
            text += f": expected {self.expected:#x}, found {self.seen:#x}"
        if self.name == "FAULT":
            text += f": {self._fault(profile)}"
        if self.retries:
            text += f" (after {self.retries} resets)"
        return text

    @property
    def is_fault(self) -> bool:
        """Whether the trace was accepted, and the GPU reported a fault while it ran."""
        return self.name == "FAULT"

    def _fault(self, profile: Profile) -> str:
        """Where a fault was seen: register and bits by name. What a report leaves open is said with "or"."""
        found = [words for source in profile.faults if (words := source.describe(self.seen, self.expected))]
        return " or ".join(found) or f"status {self.seen:#010x}"

    def _action(self, profile: Profile) -> str:
        if self.op not in list(Op):
            return f"unknown opcode {self.op:#04x}"
        row = ACTIONS[Op(self.op)]
        if row.find(*REGISTERS):
            return f"{row.name} {profile.describe(self.offset)}"
        fields = {**dict.fromkeys(FIELD_BITS, 0), "arg": self.offset}  # of the others nothing is reported
        named = [o for o in row.operands if {place.field for place in o.places} == {"arg"}]
        text = " ".join([row.name, *(f"{o.name} {o.decode(fields)}" for o in named)])
        if row.find(Type.LINE) and self.offset < len(profile.interrupts):
            text += f" (interrupt {profile.interrupts[self.offset]})"
        return text


class ReplayError(GramophoneError):
    """A replayer refused a trace, or the replay failed.

    Args:
        report: what it reported.
        profile: the GPU, for the register names.
    """

    def __init__(self, report: Report, profile: Profile) -> None:
        super().__init__(report.describe(profile))
        self.report = report
