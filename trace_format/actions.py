# SPDX-License-Identifier: BSD-2-Clause
"""Actions as programs use them: by the names of their operands.

Every action is one `Action` structure of 16 bytes (two 64-bit words), so that a stream of them is a NumPy array of
ACTION_DTYPE. `Action` here is one of them, `Columns` are many; which operands there are is the action table's to
say (`trace_format.opcodes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trace_format import schema
from trace_format.opcodes import (
    ACTIONS,
    FLAG_BESIDE,
    FLAG_IGNORE,
    FLAG_REPEAT,
    FLAG_RESUME,
    MAP_EXECUTE,
    MAP_READ,
    MAP_WRITE,
    REGISTER_OPS,
    Op,
    ops_with,
)
from trace_format.operands import FIELD_BITS, Operand, Type

__all__ = [
    "ACTIONS",
    "ACTION_DTYPE",
    "ALL_BITS",
    "FLAG_BESIDE",
    "FLAG_IGNORE",
    "FLAG_REPEAT",
    "FLAG_RESUME",
    "MAP_EXECUTE",
    "MAP_READ",
    "MAP_WRITE",
    "REGISTER_OPS",
    "Action",
    "Actions",
    "Columns",
    "Op",
    "Type",
    "action",
    "actions_of",
    "array_of",
    "operands_of",
    "ops_with",
    "rewritten",
]

Actions = NDArray[np.void]
Numbers = NDArray[np.int64]
ACTION_DTYPE = np.dtype(
    {
        "names": [s.name for s in schema.Action.subcons],
        "formats": [f"<u{s.sizeof()}" for s in schema.Action.subcons],
    }
)
assert ACTION_DTYPE.itemsize == schema.Action.sizeof() == 16

ALL_BITS = 0xFFFFFFFF
_BATCH = 4096  # actions that are made Python objects at a time


class Action(NamedTuple):
    """One action, with the operands of its opcode as attributes: `action.register`, `action.timeout_us`.

    A tuple of the structure's fields, so that a list of them becomes an array of ACTION_DTYPE.
    """

    op: int
    flags: int
    arg: int
    value: int
    a: int
    b: int

    @classmethod
    def of(cls, record: np.void) -> Action:
        """The action that a record of ACTION_DTYPE is."""
        return cls._make(record.tolist())

    def __getattr__(self, name: str) -> int:
        index = _WHOLE.get((self.op, name))
        if index is not None:
            return int(self[index])
        operand = operands_of(self.op).get(name)
        if operand is None:
            raise AttributeError(f"opcode {self.op:#04x} has no operand {name}")
        return int(operand.decode(self._asdict()))

    def with_(self, **changes: int) -> Action:
        """A copy with other operands, or fields of the structure, by name; raises as `action`."""
        fields = self._asdict()
        _put(fields, changes)
        return Action(**fields)


_FIELD_INDEX = {name: Action._fields.index(name) for name in FIELD_BITS}
# Of operands that are all of a field: where it stands in the tuple.
_WHOLE = {(int(op), o.name): _FIELD_INDEX[o.field] for op, row in ACTIONS.items() for o in row.operands if o.field}


@cache
def operands_of(op: int) -> dict[str, Operand]:
    """Operands of an opcode by name; none of an unknown one."""
    return {operand.name: operand for operand in ACTIONS[Op(op)].operands} if op in ACTIONS else {}


def action(op: Op, *, flags: int = 0, **values: int) -> Action:
    """One action.

    Args:
        op: its opcode.
        flags: bits of `flags`.
        values: operands by name; a name of a field of the structure stands for that field as a whole.

    Raises:
        TypeError: the opcode has no such operand.
        ValueError: a number does not fit.
    """
    fields = {"op": int(op), "flags": int(flags), "arg": 0, "value": 0, "a": 0, "b": 0}
    _put(fields, values)
    return Action(**fields)


def _put(fields: dict[str, int], values: Mapping[str, int]) -> None:
    operands = operands_of(fields["op"])
    for name, value in values.items():
        if name in operands:
            if not operands[name].fits(int(value)):
                raise ValueError(f"{ACTIONS[Op(fields['op'])].name}: {name} {value:#x} cannot be encoded")
            operands[name].put(fields, int(value))
        elif name in fields:
            fields[name] = int(value)
        else:
            raise TypeError(f"{ACTIONS[Op(fields['op'])].name} has no operand {name}")


def actions_of(rows: Actions) -> Iterator[Action]:
    """The actions of an array, one by one."""
    for at in range(0, len(rows), _BATCH):
        yield from map(Action._make, rows[at : at + _BATCH].tolist())


def array_of(actions: Iterable[Action | np.void]) -> Actions:
    """Actions as an array of ACTION_DTYPE."""
    return np.array(list(actions), dtype=ACTION_DTYPE)


class Columns:
    """Operands of many actions: `columns.register` has a number for every action, -1 where it has no such operand.

    Args:
        rows: array of ACTION_DTYPE.
    """

    def __init__(self, rows: Actions) -> None:
        self.rows = rows
        self._fields: dict[str, Numbers] = {}

    def __getattr__(self, name: str) -> Numbers:
        if name.startswith("_") or not any(o.name == name for row in ACTIONS.values() for o in row.operands):
            raise AttributeError(f"no action has an operand {name}")
        return self._column(lambda operand: operand.name == name)

    @property
    def op(self) -> NDArray[np.uint8]:
        """Opcodes."""
        codes: NDArray[np.uint8] = self.rows["op"]
        return codes

    @property
    def flags(self) -> NDArray[np.uint8]:
        """Flags."""
        bits: NDArray[np.uint8] = self.rows["flags"]
        return bits

    def is_op(self, *ops: Op) -> NDArray[np.bool_]:
        """Which actions have one of these opcodes."""
        return _table(ops)[self.op]

    def of(self, *types: Type) -> Numbers:
        """The operand of one of these types of every action, -1 where it has none."""
        return self._column(lambda operand: operand.type in types)

    def _column(self, wanted: Callable[[Operand], bool]) -> Numbers:
        found = np.full(len(self.rows), -1, np.int64)
        for operand, which in self._each(wanted):
            found[which] = self.decode(operand)[which]
        return found

    def each(self, *types: Type) -> Iterator[tuple[Operand, NDArray[np.bool_]]]:
        """Operands of these types, those that lie in the same place as one, and which actions have them.

        They come in the order of the fields that they begin in.
        """
        return self._each(lambda operand: operand.type in types)

    def _each(self, wanted: Callable[[Operand], bool]) -> Iterator[tuple[Operand, NDArray[np.bool_]]]:
        groups: dict[Any, tuple[Operand, list[Op]]] = {}
        for op, row in ACTIONS.items():
            for operand in row.operands:
                if wanted(operand):
                    key = operand.places, operand.type, operand.name
                    groups.setdefault(key, (operand, []))[1].append(op)
        for operand, ops in sorted(groups.values(), key=lambda g: _FIELD_INDEX[g[0].places[0].field]):
            which = self.is_op(*ops)
            if which.any():
                yield operand, which

    def decode(self, operand: Operand) -> Numbers:
        """What every action has where an operand lies, whether it has that operand or not."""
        for place in operand.places:
            if place.field not in self._fields:
                self._fields[place.field] = self.rows[place.field].astype(np.int64)
        value: Numbers = operand.decode(self._fields)
        return value


def rewritten(rows: Actions, change: Callable[[Numbers], Numbers], *types: Type) -> Actions:
    """A copy of the actions in which `change` has been applied to every operand of these types."""
    found = rows.copy()
    columns = Columns(rows)
    for operand, which in columns.each(*types):
        fields = {place.field: rows[place.field][which].astype(np.int64) for place in operand.places}
        operand.put(fields, change(columns.decode(operand)[which]))
        for field, values in fields.items():
            found[field][which] = values
    return found


def _table(ops: Iterable[Op]) -> NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    table[[int(op) for op in ops]] = True
    return table
