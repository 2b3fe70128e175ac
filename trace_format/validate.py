"""What an action may say: every rule of the action table, checked over whole streams with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_format.actions import ACTIONS, FLAG_IGNORE, Op, ops_on
from trace_format.errors import ActionError, ActionRangeError, ReservedError, UnknownActionError
from trace_format.schema import KEEP_SLOTS, PAGE_BYTES

_OPERANDS = ("arg", "value", "a", "b")
Actions = NDArray[np.void]


def check_actions(
    actions: Actions,
    *,
    image_bytes: int,
    carveout_bytes: int,
    va_bytes: int,
    slot_count: int,
    window_bytes: int,
    lines: int,
    address_spaces: int,
    where: str,
) -> None:
    """Raise the error of the first action that breaks a rule.

    Args:
        actions: array of ACTION_DTYPE.
        image_bytes, carveout_bytes, va_bytes, slot_count: from the manifest.
        window_bytes: size of the GPU's register window.
        lines: number of its interrupt lines.
        address_spaces: number of its address spaces.
        where: "FILE: " or "", put before "action N" in messages.

    Raises:
        UnknownActionError, ReservedError, ActionRangeError, ActionError
    """
    table = _Table()
    op = actions["op"]
    _raise_first(
        table.known[op] == 0,
        actions,
        UnknownActionError,
        "unknown opcode",
        where,
        lambda r: f"{int(r['op']):#04x}",
    )
    bad = (actions["flags"] & ~table.flags[op]) != 0
    for name in _OPERANDS:
        bad |= (actions[name] != 0) & (table.used[name][op] == 0)
    _raise_first(
        bad, actions, ReservedError, "a field that this action does not use is not zero", where, _describe
    )
    wide = {name: actions[name].astype(np.int64) for name in _OPERANDS}
    page_count = carveout_bytes // PAGE_BYTES

    def check(ops: Sequence[Op], wrong: NDArray[np.bool_], error: type[ActionError], what: str) -> None:
        _raise_first(np.isin(op, [int(o) for o in ops]) & wrong, actions, error, what, where, _describe)

    beyond = wide["arg"] * 4 >= window_bytes
    check(ops_on("register"), beyond, ActionRangeError, "register outside the window")
    check([Op.REG_READ_KEEP, Op.REG_WRITE_KEPT], wide["b"] >= KEEP_SLOTS, ActionRangeError, "no such kept value")
    check(ops_on("line"), wide["arg"] >= lines, ActionRangeError, "no such interrupt line")
    check(ops_on("slot"), wide["arg"] >= slot_count, ActionRangeError, "no such slot")
    check([Op.WAIT_IRQ], wide["value"] == 0, ActionError, "timeout is zero")
    check([Op.REG_READ_WAIT], wide["b"] == 0, ActionError, "timeout is zero")
    ignored = (actions["flags"] & FLAG_IGNORE) != 0
    check([Op.REG_READ_ONCE], ignored & (wide["a"] != 0), ActionError, "an ignored value has a mask")
    pages = [Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM]
    check([Op.SET_GPU_PGTABLE], wide["arg"] >= address_spaces, ActionRangeError, "no such address space")
    check(pages, wide["arg"] & 15 >= address_spaces, ActionRangeError, "no such address space")
    va = wide["a"] | (wide["arg"] >> 4) << 32
    check(pages, wide["value"] == 0, ActionError, "no pages")
    check(pages, va + wide["value"] > va_bytes // PAGE_BYTES, ActionRangeError, "virtual pages outside va_bytes")
    check(
        [Op.MAP_GPU_MEM],
        wide["b"] + wide["value"] > page_count,
        ActionRangeError,
        "pages outside the carve-out",
    )
    check([Op.MAP_GPU_MEM], actions["flags"] == 0, ActionError, "a mapping without any permission")
    fills = [Op.UPLOAD, Op.CLEAR]
    check(fills, wide["value"] == 0, ActionError, "no bytes")
    check(fills, wide["a"] < image_bytes, ActionRangeError, "target lies in the image")
    check(fills, wide["a"] + wide["value"] > carveout_bytes, ActionRangeError, "target outside the carve-out")
    check([Op.UPLOAD], wide["b"] + wide["value"] > image_bytes, ActionRangeError, "source outside the image")
    starts = np.flatnonzero(op == Op.REPLAY_START)
    if len(starts) > 1:
        raise ActionError(f"{where}action {starts[1]}: a second ReplayStart")
    jobs = actions["value"][op == Op.JOB]
    if len(jobs) and not np.array_equal(jobs, np.arange(len(jobs))):
        first = int(np.flatnonzero(jobs != np.arange(len(jobs)))[0])
        raise ActionError(f"{where}job numbers do not count from 0", expected=first, found=int(jobs[first]))


class _Table:
    """The action table as arrays indexed by opcode."""

    def __init__(self) -> None:
        self.known = np.zeros(256, np.uint8)
        self.flags = np.zeros(256, np.uint8)
        self.used = {name: np.zeros(256, np.uint8) for name in _OPERANDS}
        for op, row in ACTIONS.items():
            self.known[op] = 1
            for bit in row.flags:
                self.flags[op] |= bit
            for name in row.fields:
                self.used[name][op] = 1


def _describe(record: np.void) -> str:
    operands = ", ".join(f"{n} {int(record[n]):#x}" for n in ("flags", *_OPERANDS))
    return f"{ACTIONS[Op(int(record['op']))].name} with {operands}"


def _raise_first(
    wrong: NDArray[np.bool_], actions: Actions, error: type[Exception], what: str, where: str, describe: Any
) -> None:
    if wrong.any():
        index = int(np.argmax(wrong))
        raise error(f"{where}action {index}: {what}: {describe(actions[index])}")


def job_count(actions: Actions) -> int:
    """Number of jobs in the stream."""
    return int(np.count_nonzero(actions["op"] == Op.JOB))
