# SPDX-License-Identifier: BSD-2-Clause
"""Straight streams: of each job that dispatches, one stream without loads, stores, branches, calls or waits.

A driver's streams depend on memory by their bookkeeping only: counters, and where threads' storage is. A recording
is replayed; before each job its stream is interpreted on the memory that it finds. What a dispatch finds in its
registers becomes moves, what streams have stored into its descriptors is uploaded before the job. What else they
store is left out: nobody but they reads it. A stream whose course depends on what a dispatch wrote is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from host_tools.families.page_tables import DivergenceError
from host_tools.gpus.mali.valhall_descriptors import MAX_TABLES, RESOURCES, SHADER, STORAGE
from host_tools.gpus.mali_csf.conversion import STREAMS_VA
from host_tools.gpus.mali_csf.instructions import INSTRUCTION_BYTES, Code, instruction, packed
from host_tools.gpus.mali_csf.page_tables import SPACE
from host_tools.gpus.mali_csf.rings import mapped_twice, without
from host_tools.gpus.mali_csf.walk import WORD, StreamError, Walk
from host_tools.model.interpreter import Interpreter
from host_tools.vgpu.binding import ACCESS_WRITTEN
from trace_format.actions import MAP_READ, Action, Op, Type, action, actions_of, array_of, rewritten
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

ZERO = 40  # register that is 0: no flush can be left out because of an earlier one
# Registers that a dispatch reads: of four kinds of pairs (tables, uniforms, program, storage) one each, which the
# instruction selects by two bits; from FIRST_PLAIN on offsets, sizes, first threads and numbers of workgroups.
PAIRS, SELECTED = 8, (40, 46, 42, 44)
FIRST_PLAIN, PLAIN_END = 32, 40
ADDRESS = (1 << 56) - 1  # of uniforms: above is their number
ENDPOINT, OTHERS = 2, 0  # scoreboards: of dispatches, and of flushes
RESOURCE_COMPUTE = 1
CLEAN_AND_INVALIDATE = 0x233  # L2 and the cores' caches, and what else there is
# The opcodes of a straight stream.
STRAIGHT = frozenset(
    (Code.MOVE, Code.MOVE32, Code.WAIT, Code.RUN_COMPUTE, Code.SET_SCOREBOARD, Code.RESOURCES, Code.FLUSH)
)


@dataclass(frozen=True)
class Dispatch:
    """A dispatch: its instruction, and the registers that it reads by number."""

    word: int
    registers: Mapping[int, int]


@dataclass
class Straightened:
    """What was made of a recording.

    Attributes:
        trace: it, with a straight stream a job.
        folded: words of descriptors that streams have stored, and that are uploaded now.
        left_out: GPU addresses of words that streams stored and that nothing stores now.
        before, after: instructions that were run, and that are.
    """

    trace: Trace
    folded: int = 0
    left_out: set[int] = field(default_factory=set)
    before: int = 0
    after: int = 0


def stream_of(dispatches: list[Dispatch]) -> list[int]:
    """The straight stream of a job's dispatches: each has ended, and caches are flushed, before the next one."""
    stream = [
        instruction(Code.SET_SCOREBOARD, low=ENDPOINT | OTHERS << 4),
        instruction(Code.MOVE32, to=ZERO, low=0),
    ]
    have: dict[int, int] = {}
    for dispatch in dispatches:
        moves = {at: value for at, value in sorted(dispatch.registers.items()) if have.get(at) != value}
        stream += [instruction(Code.MOVE32, to=at, low=value) for at, value in moves.items()]
        have |= moves
        stream += [
            instruction(Code.RESOURCES, low=RESOURCE_COMPUTE),
            dispatch.word,
            instruction(Code.RESOURCES),
            instruction(Code.WAIT, low=1 << 16 + ENDPOINT),
            instruction(Code.FLUSH, a=ZERO, to=OTHERS, low=CLEAN_AND_INVALIDATE),
            instruction(Code.WAIT, low=1 << 16 + OTHERS),
        ]
    return stream


class Straightener(Interpreter):
    """Replays a recording, and interprets the stream of each job before the job runs."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace, track=True)
        self.found = Straightened(trace)
        self.rows: list[Action] = []
        self.inputs = {}
        self.stored: dict[int, int] = {}  # address of a word -> what streams have stored there
        self.places: dict[int, int] = {}  # its carve-out offset -> the address
        self.written = np.zeros(trace.carveout_bytes // WORD, np.bool_)  # words that dispatches have written
        self.folded: dict[int, int] = {}  # of `stored`, what was uploaded in its place
        self.image_end = len(trace.image)  # without the recorder's own streams
        self.data = bytearray()  # of descriptors' words, behind that
        self.streams = bytearray()
        self.rings = mapped_twice(actions_of(trace.actions))  # but for those that dispatches have touched
        self.jobs = 0
        self.number = -1  # of the recorded job

    def straighten(self) -> Straightened:
        """Replay once.

        Raises:
            StreamError: a stream cannot be made straight.
            DivergenceError, VgpuError: it cannot be run.
        """
        for index, row in enumerate(actions_of(self.trace.actions)):
            self.index = index
            match row.op:
                case Op.RUN_STREAM:
                    self._call(row)
                case Op.JOB:
                    self.number = row.number
                case _:
                    self._step(row)
                    self._other(row)
        self.found.left_out = {va for va, value in self.stored.items() if self.folded.get(va) != value}
        self.found.trace = self._made()
        return self.found

    def _other(self, row: Action) -> None:
        """Keep an action; what the CPU writes is nobody else's any more."""
        if row.op == Op.MAP_GPU_MEM and row.va_page == STREAMS_VA // PAGE_BYTES:
            self.image_end = row.frame * PAGE_BYTES
            return
        self.rows.append(row)
        if row.op in (Op.UPLOAD, Op.CLEAR):
            first, end = row.target // WORD, -(-(row.target + row.bytes) // WORD)
            self.written[first:end] = False
            for place in [place for place in self.places if first <= place // WORD < end]:
                self.stored.pop(self.places.pop(place), None)

    def _place(self, va: int) -> int:
        return self.tables.translate(SPACE, va)

    def _word(self, va: int) -> int | None:
        try:
            place = self._place(va)
        except DivergenceError:
            return None
        return int(self.memory[place : place + WORD].view("<u4")[0])

    def _call(self, row: Action) -> None:
        job = _Job(Walk(self.number, self._word, self.stored))
        job.walk.run(row.stream, row.instructions * INSTRUCTION_BYTES, job.dispatch)
        self.found.before += job.walk.instructions
        self.gpu.clear_access()
        self._queue().call(row.address_space, row.stream, row.instructions)
        self._judge(job.walk)
        if job.dispatches:
            self._add(job, row)

    def _judge(self, walk: Walk) -> None:
        """Refuse loads of what dispatches wrote, in this job or before; what they wrote in it is known now."""
        known = {self._place(va) for va in (*walk.loads, *walk.stores)}
        for page, flags in self.gpu.access_map().items():
            if page // PAGE_BYTES in self.rings:
                touched = np.flatnonzero(flags.reshape(-1, WORD).any(axis=1)) * WORD + page
                if not known.issuperset(touched.tolist()):
                    self.rings.discard(page // PAGE_BYTES)
            if page < self.trace.carveout_bytes:
                words = (flags & ACCESS_WRITTEN).reshape(-1, WORD).any(axis=1)
                self.written[page // WORD : (page + PAGE_BYTES) // WORD] |= words
        for va in walk.stores:
            self.places[self._place(va)] = va
            self.written[self._place(va) // WORD] = False
        for va, (place, word) in walk.loads.items():
            if self.written[self._place(va) // WORD]:
                raise StreamError(
                    self.number, place, f"a load of the word at {va:#x}, which a dispatch wrote", word
                )

    def _add(self, job: _Job, row: Action) -> None:
        for va, value in sorted(job.uploads.items()):
            source = self.image_end + len(self.data)
            self.rows.append(action(Op.UPLOAD, bytes=WORD, target=self._place(va), source=source))
            self.data += value.to_bytes(WORD, "little")
        self.found.folded += len(job.uploads)
        self.folded |= job.uploads
        stream = stream_of(job.dispatches)
        self.found.after += len(stream)
        self.rows.append(action(Op.JOB, number=self.jobs))
        self.rows.append(row.with_(stream=STREAMS_VA + len(self.streams), instructions=len(stream)))
        self.streams += packed(stream)
        self.jobs += 1

    def _made(self) -> Trace:
        """The trace: its image has words and streams in place of the recorder's streams."""
        image = bytes(self.trace.image[: self.image_end]) + self.data
        frame = -(-len(image) // PAGE_BYTES)
        image += bytes(frame * PAGE_BYTES - len(image)) + self.streams
        image += bytes(-len(image) % PAGE_BYTES)  # the memory model takes whole pages as mapped where they lie
        pages = -(-len(self.streams) // PAGE_BYTES)
        behind = -(-len(self.trace.image) // PAGE_BYTES)  # pages of the image stay where they are
        shift = frame + pages - behind
        rows = array_of(without(self.rows, self.rings))
        rows = rewritten(rows, lambda frames: frames + shift * (frames >= behind), Type.FRAME)
        rows = rewritten(rows, lambda targets: targets + shift * PAGE_BYTES, Type.TARGET)
        where = {"address_space": SPACE, "va_page": STREAMS_VA // PAGE_BYTES, "pages": pages, "frame": frame}
        start = int(np.argmax(rows["op"] == Op.REPLAY_START))
        mapped = array_of([action(Op.MAP_GPU_MEM, flags=MAP_READ, **where)] if pages else [])
        made = self.trace.with_(
            actions=np.concatenate([rows[:start], mapped, rows[start:]]),
            image=bytes(image),
            carveout_bytes=self.trace.carveout_bytes + shift * PAGE_BYTES,
        )
        made.check()
        return made


class _Job:
    """What the dispatches of a stream find."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.dispatches: list[Dispatch] = []
        self.uploads: dict[int, int] = {}  # words of descriptors that streams have stored
        self.used: dict[int, int] = {}  # words of descriptors, as an earlier dispatch found them

    def dispatch(self, word: int, registers: list[int]) -> None:
        """Note one."""
        for va in _descriptors(self.walk, word, registers):
            value = self.walk.word(va)
            if self.used.setdefault(va, value) != value:
                raise self.walk.fail(f"the descriptor's word at {va:#x} changes between dispatches of a job")
            if va in self.walk.stored:
                self.uploads[va] = value
        numbers = [*(at + half for at in _selected(word) for half in (0, 1)), *range(FIRST_PLAIN, PLAIN_END)]
        self.dispatches.append(Dispatch(word, {at: registers[at] for at in numbers}))


def _selected(word: int) -> list[int]:
    """First registers of the pairs that a dispatch reads: of tables, uniforms, program, storage."""
    return [kind * PAIRS + 2 * (word >> at & 3) for kind, at in enumerate(SELECTED)]


def _descriptors(walk: Walk, word: int, registers: Sequence[int]) -> Iterator[int]:
    """Addresses of the words that tell a dispatch what to do: tables and buffers, uniforms, program, storage.

    Raises:
        StreamError: some is not mapped.
    """
    tables, uniforms, shader, storage = (registers[at] | registers[at + 1] << 32 for at in _selected(word))
    ranges = [(shader, SHADER.size), (uniforms & ADDRESS, 8 * (uniforms >> 56))]
    ranges += [(storage, STORAGE.size)] if storage else []
    first = tables & ~MAX_TABLES
    for entry in range(first, first + RESOURCES.size * (tables & MAX_TABLES), RESOURCES.size):
        data = b"".join(
            walk.word(va).to_bytes(WORD, "little") for va in range(entry, entry + RESOURCES.size, WORD)
        )
        ranges += [(entry, RESOURCES.size), (RESOURCES["address"].number(data), RESOURCES["size"].number(data))]
    for va, size in ranges:
        yield from range(va, va + size, WORD)


def straighten(trace: Trace) -> Straightened:
    """Make a recording's streams straight; errors as `Straightener.straighten`."""
    run = Straightener(trace)
    try:
        return run.straighten()
    finally:
        run.close()
