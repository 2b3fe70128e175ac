# SPDX-License-Identifier: BSD-2-Clause
"""A replay that keeps account of each byte of memory: what it depends on, and who wrote it.

What jobs do, the virtual GPU follows (struct vgpu_flow in vgpu.h); what the replayer does, uploads,
clears and copies, is followed here.
"""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.families.page_tables import DivergenceError
from host_tools.model.frames import Mask
from host_tools.model.interpreter import Interpreter
from host_tools.support.pages import pages_of
from host_tools.support.sheet import MAP_NORESERVE
from host_tools.vgpu.binding import ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN, Decisions, VgpuError
from trace_format.actions import Action, Columns, Op
from trace_format.operators import operands
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.slots import Slot
from trace_format.streamed import Piece
from trace_format.trace import Trace

# Labels: the image and what else the trace brings; memory that nobody has written; registers that a thread has not
# written; inputs of an earlier replay; from FIRST_SLOT on, slots.
IMAGE, NOBODY, REGISTERS, EARLIER, FIRST_SLOT = (1 << i for i in range(5))
SLOT_LABELS = 28
ALL = 0xFFFFFFFF
# Who wrote a byte last; from here on, slots and then jobs.
BY_NOBODY, BY_TRACE, BY_SLOT = range(3)


@dataclass(frozen=True)
class Range:
    """Bytes: the first one and how many."""

    first: int
    bytes: int


def ranges(mask: Mask, base: int = 0) -> Iterator[Range]:
    """Where a mask is set."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False)).tolist()
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        yield Range(base + first, end - first)


def joined(parts: list[Range]) -> tuple[Range, ...]:
    """Ranges in the order of their first bytes, of which those that touch or overlap are one."""
    found: list[Range] = []
    for part in parts:
        if found and (end := found[-1].first + found[-1].bytes) >= part.first:
            first = found.pop().first
            part = Range(first, max(end, part.first + part.bytes) - first)
        found.append(part)
    return tuple(found)


@dataclass(frozen=True)
class Names:
    """Which label stands for which slots: inputs, then parameters; the last one stands for all that are left."""

    slots_of: tuple[tuple[str, ...], ...]
    inputs: int  # labels of inputs

    @classmethod
    def of(cls, slots: list[Slot]) -> Names:
        """Of a trace's slots."""
        inputs = [slot.name for slot in slots if slot.kind == SlotKind.INPUT]
        names = [*inputs, *(slot.name for slot in slots if slot.kind == SlotKind.PARAMETER)]
        single, rest = names[: SLOT_LABELS - 1], names[SLOT_LABELS - 1 :]
        groups = ((name,) for name in single)
        own = min(len(inputs), SLOT_LABELS)
        return cls((*groups, tuple(rest)) if rest else tuple(groups), ((1 << own) - 1) * FIRST_SLOT)

    def label(self, name: str) -> int:
        """The label of a slot."""
        return FIRST_SLOT << next(i for i, names in enumerate(self.slots_of) if name in names)

    def slots(self, labels: int) -> tuple[str, ...]:
        """The slots that labels stand for."""
        bits = labels // FIRST_SLOT
        return tuple(name for i, names in enumerate(self.slots_of) if bits >> i & 1 for name in names)


@dataclass(frozen=True)
class Job:
    """A job that has run; labels: of what it has written; faulted: it did not come to its end."""

    number: int
    action: int
    kind: str
    read: tuple[Range, ...]
    written: tuple[Range, ...]
    labels: int
    decisions: Decisions
    faulted: bool


@dataclass(frozen=True)
class Copied:
    """Of each byte of an output when it was copied: place, what it depends on, the job that wrote it, or -1."""

    where: NDArray[np.int64]
    labels: NDArray[np.uint32]
    jobs: NDArray[np.int64]


def _sparse(count: int, dtype: Any) -> NDArray[Any]:
    """Zeros of which only what is written needs memory."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    return np.frombuffer(mmap.mmap(-1, count * np.dtype(dtype).itemsize, flags=flags), dtype)


@dataclass
class Follower(Interpreter):
    """An interpreter that follows data.

    Attributes:
        names: of the labels.
        jobs, copied: of the replay that has run, or that has stopped; copied: by output, one for each copy.
        computed: slot that an operator wrote -> the latest job before it.
        edges: of the same, source and target, as in `host_tools.audit.flow.Edge` -> bytes.

    Raises:
        VgpuError: the virtual GPU of this kind does not follow data.
    """

    jobs: list[Job] = field(default_factory=list)
    edges: Counter[tuple[str, str]] = field(default_factory=Counter)
    copied: dict[str, list[Copied]] = field(default_factory=dict)
    computed: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.track = True
        super().__post_init__()
        size = len(self.memory)
        self.names = Names.of(self.trace.slots)
        self.labels: NDArray[np.uint32] = _sparse(size, np.uint32)
        self._writers: NDArray[np.int32] = _sparse(size, np.int32)
        # What the prologue fills and no replay does; a retry would undo state, so with retries it is a mistake.
        self._state: NDArray[np.bool_] = _sparse(size, np.bool_)
        starts = np.flatnonzero(Columns(self.trace.actions).is_op(Op.REPLAY_START))
        retries = (Trace.META_DEFAULTS | self.trace.meta)["retry_limit"]
        self._first = int(starts[0]) if len(starts) and not retries else 0
        self._known: set[int] = set()
        self._kinds = {job.start.index: job.kind for job in self.gpu_profile.jobs}
        if self.trace.image:
            self._fill(0, len(self.trace.image))
        try:
            self.gpu.follow(self.labels, implicit=ALL & ~IMAGE, registers=REGISTERS)
        except BaseException:
            self.close()
            raise

    def next_replay(self) -> None:
        """The replay is over: what depends on its inputs is from an earlier one from now on, or is state."""
        inputs = np.uint32(self.names.inputs)
        for page in self._known:
            here = self.labels[page * PAGE_BYTES :][:PAGE_BYTES]
            state = self._state[page * PAGE_BYTES :][:PAGE_BYTES]
            dependent = here & inputs != 0
            label = np.where(state[dependent], np.uint32(IMAGE), np.uint32(EARLIER))
            here[dependent] = here[dependent] & ~inputs | label
        self.jobs, self.edges, self.copied, self.computed = [], Counter(), {}, {}

    def left(self) -> tuple[Range, ...]:
        """Bytes that depend on inputs of an earlier replay."""
        return self._where(lambda labels, state: labels & EARLIER != 0)

    def state(self) -> tuple[Range, ...]:
        """Bytes of state that depend on inputs of this replay."""
        return self._where(lambda labels, state: state & (labels & np.uint32(self.names.inputs) != 0))

    def _where(self, wanted: Callable[[NDArray[np.uint32], Mask], Mask]) -> tuple[Range, ...]:
        parts: list[Range] = []
        for at in (page * PAGE_BYTES for page in sorted(self._known)):
            here = slice(at, at + PAGE_BYTES)
            parts += ranges(wanted(self.labels[here], self._state[here]), at)
        return joined(parts)

    def _step(self, row: Action) -> None:
        starts = row.op in (Op.REG_WRITE, Op.REG_WRITE_KEPT) and row.register in self._kinds
        if row.op == Op.MAP_GPU_MEM:
            self._know(row.frame * PAGE_BYTES, row.pages * PAGE_BYTES)
        try:
            super()._step(row)
        except VgpuError:
            if starts:  # what has decided so far is known
                self._job(self._kinds[row.register])
            raise
        if starts:
            self._job(self._kinds[row.register])
            if self.jobs[-1].faulted:
                raise DivergenceError(f"job {self.jobs[-1].number} causes an MMU fault")
        elif row.op in (Op.UPLOAD, Op.CLEAR):
            self._fill(row.target, row.bytes)
        elif row.op == Op.COPY_TO_GPU and self.trace.slots[row.slot].name in self.inputs:
            slot = self.trace.slots[row.slot]
            self._write(self._bytes(slot), self.names.label(slot.name), BY_SLOT + row.slot)
        elif row.op == Op.OPERATE:
            self._operated(row)
        elif row.op == Op.COPY_FROM_GPU:
            self._copied(self.trace.slots[row.slot])

    def _read_piece(self, piece: Piece) -> None:
        super()._read_piece(piece)
        self._fill(piece.page * PAGE_BYTES, len(piece.data))

    def _know(self, at: int, size: int) -> None:
        """What is mapped or filled for the first time, nobody has written; the replayer has wiped it."""
        for page in pages_of(at, size):
            if page not in self._known:
                self._known.add(page)
                self.labels[page * PAGE_BYTES :][:PAGE_BYTES] = NOBODY

    def _fill(self, at: int, size: int) -> None:
        self._know(at, size)
        self._write(slice(at, at + size), IMAGE, BY_TRACE)
        self._state[at : at + size] = self.index < self._first

    def _write(self, where: slice | NDArray[np.int64], label: int, writer: int) -> None:
        self.labels[where] = label
        self._writers[where] = writer

    def _bytes(self, slot: Slot) -> NDArray[np.int64]:
        """Where each byte of a slot's dense tensor lies."""
        return self._elements(slot).reshape(-1)

    @property
    def _first_job(self) -> int:
        return BY_SLOT + len(self.trace.slots)

    def _name(self, writer: int) -> str:
        if writer >= self._first_job:
            return f"job:{writer - self._first_job}"
        if writer >= BY_SLOT:
            return f"slot:{self.trace.slots[writer - BY_SLOT].name}"
        return "trace" if writer == BY_TRACE else "nobody"

    def _note(self, writers: NDArray[np.int32], target: str) -> None:
        """Bytes with these writers go to the target."""
        for writer, count in zip(*np.unique(writers, return_counts=True), strict=True):
            self.edges[self._name(int(writer)), target] += int(count)

    def _job(self, kind: str) -> None:
        number, labels = len(self.jobs), 0
        faulted = self.gpu.counters().faults > 0
        read: list[Range] = []
        written: list[Range] = []
        for at, flags in self.gpu.access_map().items():
            here = slice(at, at + PAGE_BYTES)
            first, wrote = flags & ACCESS_READ_FIRST != 0, flags & ACCESS_WRITTEN != 0
            self._note(self._writers[here][first], f"job:{number}")
            self._writers[here][wrote] = self._first_job + number
            labels |= int(np.bitwise_or.reduce(self.labels[here][wrote]))
            read += ranges(flags & ACCESS_READ != 0, at)
            written += ranges(wrote, at)
        self.gpu.clear_access()
        decisions = self.gpu.decisions()
        self.jobs.append(Job(number, self.index, kind, joined(read), joined(written), labels, decisions, faulted))

    def _operated(self, row: Action) -> None:
        """All that an operator writes depends on all that it reads; it counts to the latest job.

        It writes each element of its results. Of scratch it writes a part, so the replayer clears it.
        """
        numbers = range(row.slot, row.slot + row.operands)
        found = list(zip(numbers, operands(row, self.trace.slots), strict=True))
        read = [slot for _, (type, slot) in found if not type.written]
        labels = 0
        for slot in read:
            where = self._bytes(slot)
            labels |= int(np.bitwise_or.reduce(self.labels[where]))
            self._note(self._writers[where], f"slot:{slot.name}")
        for number, (type, slot) in found:
            if type.scratch:
                self._write(self._bytes(slot), IMAGE, BY_TRACE)
            elif type.written:
                self.computed[number] = len(self.jobs) - 1
                self._write(self._bytes(slot), labels, BY_SLOT + number)
                self.edges.update(
                    {(f"slot:{source.name}", f"slot:{slot.name}"): source.dense_bytes for source in read}
                )

    def _copied(self, slot: Slot) -> None:
        where = self._bytes(slot)
        writers = self._writers[where].copy()
        own = f"slot:{slot.name}"
        self._note(writers, own)
        self.edges.pop((own, own), None)  # an operator's, which has been accounted for
        for number, job in self.computed.items():
            writers[writers == BY_SLOT + number] = self._first_job + job
        jobs = np.maximum(writers.astype(np.int64) - self._first_job, -1)
        self.copied.setdefault(slot.name, []).append(Copied(where, self.labels[where], jobs))
