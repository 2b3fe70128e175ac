# SPDX-License-Identifier: BSD-2-Clause
"""What a trace may do to registers, and execute, by the policy of its GPU's profile, which devices enforce.

Theirs is the table that tee_replayer/generator/target.py makes of the same profile, and tee_replayer/core/check.c;
tests/vgpu/test_policy_agreement.py compares the verdicts. What depends on the values that registers have during a
replay is judged there only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_format.actions import ACTIONS, ALL_BITS, FLAG_BESIDE, MAP_EXECUTE, Actions, Columns, Op, Type
from trace_format.errors import ActionError
from trace_format.operands import REGISTERS
from trace_format.profile import Profile
from trace_format.schema import PAGE_BYTES
from trace_format.schema.report import Status
from trace_format.trace import Trace

Mask = NDArray[np.bool_]
IN_PLACE = "it follows a job's start, and the wait for the job follows it"


class PolicyError(ActionError):
    """An action that every device refuses; with the device's own words."""


class PlaceError(PolicyError):
    """An operator that works beside a job, where none is started."""


@dataclass(frozen=True)
class _Rights:
    """What traces may do to every word of the register window: arrays with an element for each."""

    reads: Mask
    writes: Mask
    bits: NDArray[np.int64]
    always: NDArray[np.int64]

    @classmethod
    def of(cls, gpu: Profile) -> _Rights:
        words = 1 + max(gpu.window_bytes // 4, *(register.index for register in gpu.by_offset.values()))
        found = cls(
            np.zeros(words, np.bool_),
            np.zeros(words, np.bool_),
            np.zeros(words, np.int64),
            np.zeros(words, np.int64),
        )
        for register in gpu.by_offset.values():
            index = register.index
            found.reads[index] = register.readable
            found.writes[index] = register.may_write
            found.bits[index], found.always[index] = register.may_set, register.replay_set
        return found


def check(trace: Trace, where: str = "") -> None:
    """Raise PolicyError for the first action that the policy does not allow.

    Args:
        trace: one whose actions are well-formed (`Trace.parse`).
        where: "FILE: " or "", put first in the message.
    """
    outside = code_outside_the_image(trace)
    if outside.any():
        index = int(np.argmax(outside))
        raise PolicyError(
            f"{where}{Status.RANGE.text}, action {index}: {ACTIONS[Op.MAP_GPU_MEM].name}",
            expected="executable pages in the image only, where nothing writes",
            found="others",
        )
    if (outside := out_of_place(trace)).any():
        index = int(np.argmax(outside))
        raise PlaceError(
            f"{where}{Status.ACTION.text}, action {index}: {ACTIONS[Op.OPERATE].name} beside a job",
            expected=IN_PLACE,
            found="others around it",
        )
    found = [(int(np.argmax(wrong)), expected, value) for wrong, expected, value in broken(trace) if wrong.any()]
    if not found:
        return
    index, expected, value = min(found, key=lambda rule: rule[0])
    row: Any = trace.actions[index]
    action = ACTIONS[Op(int(row["op"]))]
    register = trace.profile.describe(4 * int(Columns(trace.actions).of(*REGISTERS)[index]))
    raise PolicyError(
        f"{where}{Status.REGISTER.text}, action {index}: {action.name} {register}",
        expected=f"{expected} (docs/REGISTERS.md)",
        found=f"{int(row[value]):#010x}" if value else register,
    )


def refused(trace: Trace) -> Mask:
    """Which actions the policy does not allow."""
    found = code_outside_the_image(trace)
    for wrong, *_ in broken(trace):
        found |= wrong
    return found


def code_outside_the_image(trace: Trace) -> Mask:
    """Mappings of executable pages that are not the image's, on a GPU whose page tables forbid execution."""
    columns = Columns(trace.actions)
    if not trace.profile.forbids_execution:
        return np.zeros(len(trace.actions), np.bool_)
    executes = columns.is_op(Op.MAP_GPU_MEM) & (columns.flags & MAP_EXECUTE != 0)
    image_pages = -(-len(trace.image) // PAGE_BYTES)
    found: Mask = executes & (columns.of(Type.FRAME) + columns.of(Type.PAGES) > image_pages)
    return found


def out_of_place(trace: Trace) -> Mask:
    """Operators beside a job that do not lie between its start and its wait, each alone or with others."""
    columns, gpu = Columns(trace.actions), trace.profile
    beside: Mask = columns.is_op(Op.OPERATE) & (columns.flags & FLAG_BESIDE != 0)
    if not beside.any():
        return np.zeros(len(beside), np.bool_)
    registers = [job.start.index for job in gpu.jobs]
    starts = columns.is_op(Op.REG_WRITE) & np.isin(columns.of(Type.REGISTER_WRITTEN), registers)
    starts &= trace.actions["value"] != 0
    networks = [(row.first_action, row.end_action) for row in trace.networks] or [(0, len(beside))]
    before, after = np.zeros_like(beside), np.zeros_like(beside)
    for first, end in networks:
        before[first + 1 : end] = (starts | beside)[first : end - 1]
        after[first : end - 1] = (columns.is_op(Op.WAIT_IRQ) | beside)[first + 1 : end]
    found: Mask = beside & ~(before & after)
    return found


def written(trace: Trace) -> list[str]:
    """Names of the registers that a trace writes, in the order of their offsets."""
    indices = Columns(trace.actions).of(Type.REGISTER_WRITTEN)
    # not by np.unique, which imports numpy.ma: a fortieth of the time of `verify`
    return [trace.profile.describe(4 * index) for index in sorted(set(indices[indices >= 0].tolist()))]


def broken(trace: Trace) -> Iterator[tuple[Mask, str, str]]:
    """Every rule: which actions break it, what is expected, and the field with what is found ("": the access)."""
    actions: Actions = trace.actions
    columns, rights = Columns(actions), _Rights.of(trace.profile)
    read, write = columns.of(Type.REGISTER_READ), columns.of(Type.REGISTER_WRITTEN)
    yield (read >= 0) & ~rights.reads[read], "a register that a trace may read", ""
    yield (write >= 0) & ~rights.writes[write], "a register that a trace may write", ""
    mask = columns.of(Type.MASK)
    sets = columns.is_op(*(op for op, row in ACTIONS.items() if row.find(Type.BITS))) & (write >= 0)
    value = np.where(sets, columns.of(Type.BITS), 0) & mask
    partial = sets & (mask != ALL_BITS)
    yield partial & ~rights.reads[write], "a register that can be read, as its other bits are kept", ""
    yield sets & ((value & ~rights.bits[write]) != 0), "no bits but those that a trace may set", "value"
    yield sets & ((~value & mask & rights.always[write]) != 0), "all bits that a trace must set", "value"
