# SPDX-License-Identifier: BSD-2-Clause
"""What an action may say: the rules of the action table, checked over whole streams with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_format.actions import Actions, Columns, Numbers, Op
from trace_format.errors import (
    ActionError,
    ActionRangeError,
    RegisterRangeError,
    ReservedError,
    TraceError,
    UnknownActionError,
)
from trace_format.opcodes import ACTIONS, MAP_WRITE
from trace_format.operands import COUNTED_BY, FIELD_BITS, REGISTERS, Type
from trace_format.schema import KEEP_SLOTS, PAGE_BYTES

__all__ = ["Actions", "check_actions", "job_count", "replay_total"]

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Limits:
    """What the manifest and the GPU's profile allow.

    Attributes:
        image_bytes, carveout_bytes, va_bytes, slot_count: from the manifest.
        window_bytes: size of the GPU's register window.
        lines: number of its interrupt lines.
        address_spaces: number of its address spaces.
        read_only_pages: pages that nothing writes: the image's, and those of resident pieces behind it.
    """

    image_bytes: int
    carveout_bytes: int
    va_bytes: int
    slot_count: int
    window_bytes: int
    lines: int
    address_spaces: int
    read_only_pages: int

    @property
    def image_end(self) -> int:
        """End of the last page that nothing writes."""
        return self.read_only_pages * PAGE_BYTES


@dataclass(frozen=True)
class Rule:
    """What is wrong with an operand of a type.

    Attributes:
        types: of the operands that it is about.
        error, what: the error, and its words.
        broken: given operands, what counts the items of the range that each begins, and the limits.
    """

    types: tuple[Type, ...]
    error: type[ActionError]
    what: str
    broken: Callable[[Numbers, Numbers, Limits], Mask]


def _rule(
    type: Type, error: type[ActionError], what: str, broken: Callable[[Numbers, Numbers, Limits], Mask]
) -> Rule:
    return Rule((type,), error, what, broken)


# In the order in which they are checked. Ends are sums of numbers of at most 44 bits: nothing overflows.
RULES = (
    Rule(REGISTERS, RegisterRangeError, "register outside the window", lambda x, n, of: x * 4 >= of.window_bytes),
    _rule(Type.KEEP, ActionRangeError, "no such kept value", lambda x, n, of: x >= KEEP_SLOTS),
    _rule(Type.LINE, ActionRangeError, "no such interrupt line", lambda x, n, of: x >= of.lines),
    _rule(Type.SLOT, ActionRangeError, "no such slot", lambda x, n, of: x >= of.slot_count),
    _rule(Type.TIMEOUT, ActionError, "timeout is zero", lambda x, n, of: x == 0),
    _rule(Type.ADDRESS_SPACE, ActionRangeError, "no such address space", lambda x, n, of: x >= of.address_spaces),
    _rule(Type.PAGES, ActionError, "no pages", lambda x, n, of: x == 0),
    _rule(
        Type.VA_PAGE,
        ActionRangeError,
        "virtual pages outside va_bytes",
        lambda x, n, of: x + n > of.va_bytes // PAGE_BYTES,
    ),
    _rule(
        Type.FRAME,
        ActionRangeError,
        "pages outside the carve-out",
        lambda x, n, of: x + n > of.carveout_bytes // PAGE_BYTES,
    ),
    _rule(Type.BYTES, ActionError, "no bytes", lambda x, n, of: x == 0),
    _rule(Type.INSTRUCTIONS, ActionError, "no instructions", lambda x, n, of: x == 0),
    _rule(
        Type.STREAM,
        ActionRangeError,
        "stream outside va_bytes, or not at a multiple of 8",
        lambda x, n, of: (x % 8 != 0) | (x + 8 * n > of.va_bytes),
    ),
    _rule(Type.TARGET, ActionRangeError, "target lies in the image", lambda x, n, of: x < of.image_end),
    _rule(
        Type.TARGET, ActionRangeError, "target outside the carve-out", lambda x, n, of: x + n > of.carveout_bytes
    ),
    _rule(Type.SOURCE, ActionRangeError, "source outside the image", lambda x, n, of: x + n > of.image_bytes),
)


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
    joint: bool = False,
    read_only_pages: int | None = None,
) -> None:
    """Raise the error of the first action that breaks a rule.

    Args:
        actions: array of ACTION_DTYPE.
        image_bytes, carveout_bytes, va_bytes, slot_count, window_bytes, lines, address_spaces: see `Limits`.
        where: "FILE: " or "", put before "action N" in messages.
        read_only_pages: see `Limits`; None: those of the image.
        joint: each of several networks may have what an action stream has once (`check_networks` says where).

    Raises:
        UnknownActionError, ReservedError, ActionRangeError (RegisterRangeError), ActionError
    """
    image_pages = -(-image_bytes // PAGE_BYTES)
    read_only = image_pages if read_only_pages is None else read_only_pages
    sizes = (image_bytes, carveout_bytes, va_bytes, slot_count, window_bytes, lines, address_spaces)
    limits = Limits(*sizes, read_only)
    columns = Columns(actions)
    unknown = ~columns.is_op(*Op)
    _raise_first(unknown, actions, UnknownActionError, "unknown opcode", where, lambda r: f"{int(r['op']):#04x}")
    what = "a field that this action does not use is not zero"
    _raise_first(_reserved(actions), actions, ReservedError, what, where, _describe)
    for wrong, error, what in _broken(columns, limits):
        _raise_first(wrong, actions, error, what, where, _describe)
    _check_stream(columns, where, joint)


def _reserved(actions: Actions) -> Mask:
    """Which actions have something in fields, or bits of fields, that their opcode does not use."""
    used = {name: np.zeros(256, np.uint32) for name in ("flags", *FIELD_BITS)}
    for op, row in ACTIONS.items():
        used["flags"][op] = sum(row.flags)
        for place in (place for operand in row.operands for place in operand.places):
            used[place.field][op] |= ((1 << place.count) - 1) << place.low
    bad = np.zeros(len(actions), np.bool_)
    for name, bits in used.items():
        bad |= (actions[name] & ~bits[actions["op"]]) != 0
    return bad


def _broken(columns: Columns, limits: Limits) -> Iterator[tuple[Mask, type[ActionError], str]]:
    """Every rule, in order: which actions break it, its error and its words."""
    for rule in RULES:
        counts = columns.of(*(COUNTED_BY[type] for type in rule.types if type in COUNTED_BY))
        for operand, which in columns.each(*rule.types):
            yield which & rule.broken(columns.decode(operand), counts, limits), rule.error, rule.what
    yield from _mappings(columns, limits)
    for op, row in ACTIONS.items():
        if row.flagless:
            yield columns.is_op(op) & (columns.flags == 0), ActionError, row.flagless
        for bit, flag in row.flags.items():
            if flag.without:
                given = columns.is_op(op) & (columns.flags & bit != 0)
                yield given & (getattr(columns, flag.without) != 0), ActionError, flag.refusal


def _mappings(columns: Columns, limits: Limits) -> Iterator[tuple[Mask, type[ActionError], str]]:
    """The image is what was signed, and stays so: the GPU does not write to it."""
    writes = columns.is_op(Op.MAP_GPU_MEM) & (columns.flags & MAP_WRITE != 0)
    in_image = columns.of(Type.FRAME) < limits.image_end // PAGE_BYTES
    yield writes & in_image, ActionRangeError, "the GPU may write to the image"


def _check_stream(columns: Columns, where: str, joint: bool) -> None:
    """Rules about actions of one opcode taken together."""
    for op, row in ACTIONS.items():
        here = columns.is_op(op)
        if row.at_most_once and not joint and np.count_nonzero(here) > 1:
            second = int(np.flatnonzero(here)[1])
            raise ActionError(f"{where}action {second}: a second {row.name}", action=second)
        number = row.find(Type.NUMBER)
        if number:
            found = columns.decode(number)[here]
            wrong = np.flatnonzero(found != np.arange(len(found)))
            if len(wrong):
                raise ActionError(
                    f"{where}{op.name.lower()} numbers do not count from 0",
                    expected=int(wrong[0]),
                    found=int(found[wrong[0]]),
                    action=int(np.flatnonzero(here)[wrong[0]]),
                )


def _describe(record: np.void) -> str:
    operands = ", ".join(f"{n} {int(record[n]):#x}" for n in ("flags", *FIELD_BITS))
    return f"{ACTIONS[Op(int(record['op']))].name} with {operands}"


def _raise_first(
    wrong: Mask, actions: Actions, error: type[TraceError], what: str, where: str, describe: Any
) -> None:
    if wrong.any():
        index = int(np.argmax(wrong))
        raise error(f"{where}action {index}: {what}: {describe(actions[index])}", action=index)


def replay_total(actions: Actions, kind: Type) -> int:
    """The sum of all operands of a kind, timeouts or pauses, of one replay: from ReplayStart on."""
    columns = Columns(actions)
    start = np.flatnonzero(columns.is_op(Op.REPLAY_START))
    found = columns.of(kind)[int(start[0]) if len(start) else 0 :]
    return int(found[found > 0].sum())


def job_count(actions: Actions) -> int:
    """Number of jobs in the stream."""
    return int(np.count_nonzero(actions["op"] == Op.JOB))
