# SPDX-License-Identifier: BSD-2-Clause
"""The replay of a trace in Python, on a virtual GPU: slow, plain, and independent of the C core.

Passes use it to see which memory a trace's jobs touch, equivalence tests to compare two traces, the recorder to
find outputs. It is the second opinion on what an action means; the firmware's opinion is tee_replayer/.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.families.family import family_of, part_of
from host_tools.families.page_tables import TABLE_BYTES, DivergenceError
from host_tools.families.streams import Queue, Streams
from host_tools.model.frames import runs
from host_tools.model.operators import compute
from host_tools.support.pages import pages_of, pieces
from host_tools.support.sheet import MAP_NORESERVE, blank, sheet_of
from host_tools.vgpu.binding import VgpuError, VirtualGpu
from trace_format import operators
from trace_format.actions import ACTIONS, ALL_BITS, FLAG_IGNORE, Action, Op, actions_of
from trace_format.operators import Operator
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.slots import Slot
from trace_format.streamed import Piece
from trace_format.trace import Trace

MAX_POLLS = 100_000
LAID_BYTES = 16 * PAGE_BYTES  # from that on memory shares the image's pages, each time by a mapping more


@dataclass
class Interpreter:
    """One device: a carve-out (offset = physical address), page tables after it, and the virtual GPU.

    Args:
        trace: what to replay.
        track: keep the access map (`host_tools.accesses.observe` reads it).
        threads: of the virtual GPU; 0: one a core.
        latency_ns: how long the virtual GPU takes for what takes time. Its clock moves with Interval actions and
            while something is waited for.
        variant: of the virtual GPU: what follows the dash of its name, such as "noshaders".
        meter: keep what each dispatch does that takes time (`host_tools.accesses.job_work` reads it).
    """

    trace: Trace
    track: bool = False
    threads: int = 0
    latency_ns: int = 0
    variant: str = ""
    meter: bool = False
    kept: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gpu_profile = self.trace.profile
        size = self.trace.carveout_bytes + TABLE_BYTES
        self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
        self.memory: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)
        self.gpu = VirtualGpu(
            f"{self.trace.gpu}-{self.variant}" if self.variant else self.trace.gpu,
            {0: self.memory},
            track_access=self.track,
            meter=self.meter,
            threads=self.threads,
            latency_ns=self.latency_ns,
        )
        self.now_ns = 0
        make_tables = family_of(self.gpu_profile).page_tables
        self.tables = make_tables(self.gpu, self.gpu_profile, self.memory, self.trace.carveout_bytes)
        self.image = np.frombuffer(self.trace.image, np.uint8)
        self._sheet = sheet_of(self.trace.image)
        self._laid: list[tuple[int, int]] = []  # where memory shares the image's pages
        self.in_place = np.zeros(-(-len(self.image) // PAGE_BYTES), np.bool_)
        self.outputs: dict[str, NDArray[Any]] = {}
        self.started = False
        self.index = 0  # of the action that is being done
        self._fetched: set[int] = set()  # pieces that memory holds
        self._latest_job = -1
        self._queues: list[Queue] = []  # of command streams: one, once it is needed
        self._parameters: dict[str, NDArray[Any] | None] = {}

    def close(self) -> None:
        """Free the virtual GPU and the memory, of which views may still be around."""
        self.gpu.close()
        self._map.madvise(mmap.MADV_DONTNEED)

    def run(self, inputs: Mapping[str, NDArray[Any]] | None = None) -> dict[str, NDArray[Any]]:
        """One replay; returns the outputs.

        Parameters are copied in the prologue: when other arrays are given for them than in the run before, it runs
        again, as after binding one on the device (`gr_bind` in tee_replayer/core/replayer.h).

        Args:
            inputs: arrays by slot name, of the slot's shape; what is left out keeps its recorded value, or what
                memory holds where a parameter has none: that is refused on the device, but enough to see what
                jobs touch.

        Raises:
            DivergenceError: names the action, what was expected and what was seen.
        """
        actions = list(actions_of(self.trace.actions))
        first = next((i for i, row in enumerate(actions, 1) if row.op == Op.REPLAY_START), 0)
        self.inputs = dict(inputs or {})
        parameters = {s.name: self.inputs.get(s.name) for s in self.trace.slots if s.kind == SlotKind.PARAMETER}
        rebound = any(self._parameters.get(name) is not array for name, array in parameters.items())
        if rebound or not self.started:
            first = 0
        self._parameters = parameters
        self.started = True
        for index, row in enumerate(actions[first:], first):
            self.index = index
            try:
                self._step(row)
            except (DivergenceError, VgpuError) as error:
                name = ACTIONS[Op(row.op)].name
                raise DivergenceError(f"action {index} ({name}): {error}") from None
        return self.outputs

    def _step(self, row: Action) -> None:
        gpu = self.gpu
        match row.op:
            case Op.REG_READ_ONCE:
                seen = gpu.read32(row.register * 4)
                if not row.flags & FLAG_IGNORE and (seen ^ row.expected) & row.mask:
                    raise DivergenceError(self._differs(row, seen))
            case Op.REG_READ_WAIT:
                self._poll(row)
            case Op.REG_WRITE:
                old = 0 if row.mask == ALL_BITS else gpu.read32(row.register * 4)
                gpu.write32(row.register * 4, (old & ~row.mask) | (row.value & row.mask))
            case Op.REG_READ_KEEP:
                self.kept[row.keep] = gpu.read32(row.register * 4)
            case Op.REG_WRITE_KEPT:
                gpu.write32(row.register * 4, self.kept.get(row.keep, 0))
            case Op.SET_GPU_PGTABLE:
                self.tables.set(row.address_space)
            case Op.MAP_GPU_MEM:
                self._put_in_place(row.frame, row.frame + row.pages)
                self.tables.map(row.address_space, row.va_page, row.frame, row.pages, row.flags)
            case Op.UNMAP_GPU_MEM:
                self.tables.unmap(row.address_space, row.va_page, row.pages)
            case Op.UPLOAD:
                self._upload(row.target, row.source, row.bytes)
            case Op.CLEAR:
                self._clear(row.target, row.target + row.bytes)
            case Op.COPY_TO_GPU:
                self._copy_in(self.trace.slots[row.slot])
            case Op.COPY_FROM_GPU:
                slot = self.trace.slots[row.slot]
                self.outputs[slot.name] = self.read_slot(slot)
            case Op.OPERATE:
                self._operate(row)
            case Op.INTERVAL:
                self._pass(row.us * 1000)
            case Op.WAIT_IRQ:
                self._wait(row.line, row.timeout_us)
            case Op.RUN_STREAM:
                self._queue().call(row.address_space, row.stream, row.instructions)
            case Op.JOB:
                self._fetch(row.number)

    def _queue(self) -> Queue:
        if not self._queues:
            streams = part_of(self.gpu_profile, Streams)
            if streams is None:
                raise DivergenceError(f"a {self.gpu_profile.title} has no command streams")
            self._queues.append(streams.queue(self.tables))
        return self._queues[0]

    def _fetch(self, job: int) -> None:
        """Before a job, let memory hold all pieces that it may hold by now: a device may read one as early."""
        if job != self._latest_job + 1:  # a replay begins
            self._fetched = {index for index in self._fetched if self.trace.streamed[index].resident}
        self._latest_job = job
        for index, piece in enumerate(self.trace.streamed):
            if index not in self._fetched and piece.from_job <= job <= piece.last_job:
                self._read_piece(piece)
                self._fetched.add(index)

    def _read_piece(self, piece: Piece) -> None:
        self.memory[piece.page * PAGE_BYTES : piece.end_page * PAGE_BYTES] = np.frombuffer(piece.data, np.uint8)

    def _put_in_place(self, first: int, end: int) -> None:
        """Let pages of the image that are mapped hold it; the others nobody sees, and most of it is uploaded."""
        for start, stop in runs(~self.in_place[first:end], 1):
            self._put(PAGE_BYTES * (first + start), min(PAGE_BYTES * (first + stop), len(self.image)))
        self.in_place[first:end] = True

    def _put(self, start: int, end: int) -> None:
        """Let memory hold what the image has there; whole pages are shared where they are worth a mapping."""
        low, high = _whole_pages(start, end)
        if self._sheet is None or high - low < LAID_BYTES:
            low = high = end
        else:
            self._sheet.lay(self._map, low, low, high - low)
            self._laid.append((low, high))
        for here in (slice(start, low), slice(high, end)):
            self.memory[here] = self.image[here]

    def _upload(self, target: int, source: int, size: int) -> None:
        """Copy from the image; whole pages are shared where they lie alike there and are worth a mapping."""
        first, last = _whole_pages(target, target + size)
        if self._sheet is None or (target - source) % mmap.PAGESIZE or last - first < LAID_BYTES:
            self._copy(target, source, size)
            return
        self._sheet.lay(self._map, first, source + first - target, last - first)
        self._laid.append((first, last))
        self._copy(target, source, first - target)
        self._copy(last, source + last - target, target + size - last)

    def _copy(self, target: int, source: int, size: int) -> None:
        if self._sheet is None:
            self.memory[target:][:size] = self.image[source:][:size]
        else:
            self.memory[target:][:size] = np.frombuffer(self._sheet.part(source, size), np.uint8)

    def _clear(self, start: int, end: int) -> None:
        """Zero bytes; whole pages are given back to the system: jobs use few of those that a recording clears."""
        first, last = _whole_pages(start, end)
        if first >= last:
            self.memory[start:end] = 0
            return
        if any(begin < last and first < after for begin, after in self._laid):
            blank(self._map, first, last - first)  # given back, they would be the image's again
        else:
            self._map.madvise(mmap.MADV_DONTNEED, first, last - first)
        self.memory[start:first] = self.memory[last:end] = 0

    def _pass(self, ns: int) -> None:
        if self.latency_ns:
            self.now_ns += ns
            self.gpu.advance(self.now_ns)

    def _wait(self, line: int, timeout_us: int) -> None:
        if not self.gpu.interrupt_level(line):
            self._pass(min(self.latency_ns, timeout_us * 1000))
        if not self.gpu.interrupt_level(line):
            raise DivergenceError(f"interrupt line {line} stays inactive")

    def _poll(self, row: Action) -> None:
        for _ in range(MAX_POLLS):
            seen = self.gpu.read32(row.register * 4)
            if not (seen ^ row.expected) & row.mask:
                return
            self._pass(1000)
        raise DivergenceError(self._differs(row, seen))

    def _differs(self, row: Action, seen: int) -> str:
        name = self.gpu_profile.describe(row.register * 4)
        return f"{name}: expected {row.expected:#010x} under mask {row.mask:#010x}, found {seen:#010x}"

    def _pages(self, slot: Slot) -> Iterator[tuple[int, slice]]:
        """Of a dense slot: carve-out offset and bytes of the data, page by page."""
        for page, inside, part in pieces(slot.address, slot.span):
            yield self.tables.translate(slot.address_space, page * PAGE_BYTES + inside.start), part

    def _elements(self, slot: Slot) -> NDArray[np.int64]:
        """Carve-out offset of every byte: a row for each element, in C order."""
        offsets = slot.element_addresses()
        pages, inverse = np.unique(offsets >> 12, return_inverse=True)
        frames = np.array([self.tables.translate(slot.address_space, int(p) << 12) for p in pages], np.int64)
        first = frames[inverse].reshape(-1, 1) + (offsets & 0xFFF).reshape(-1, 1)
        result: NDArray[np.int64] = first + np.arange(slot.numpy_dtype.itemsize)
        return result

    def _copy_in(self, slot: Slot) -> None:
        if slot.name not in self.inputs:
            if slot.kind == SlotKind.INPUT and not slot.bound:
                raise DivergenceError(f"input {slot.name} is missing and the recording has no value for it")
            return
        data = np.ascontiguousarray(self.inputs[slot.name], dtype=slot.numpy_dtype)
        if data.shape != slot.shape:
            raise DivergenceError(f"slot {slot.name}: shape {data.shape}, expected {slot.shape}")
        self._write_slot(slot, data)

    def _write_slot(self, slot: Slot, data: NDArray[Any]) -> None:
        """Put a contiguous tensor where the slot is."""
        flat = data.reshape(-1).view(np.uint8)
        if data.strides == slot.strides:
            for at, part in self._pages(slot):
                self.memory[at : at + part.stop - part.start] = flat[part]
        else:
            self.memory[self._elements(slot)] = flat.reshape(-1, data.itemsize)

    def _operate(self, row: Action) -> None:
        found = operators.operands(row, self.trace.slots)
        self._check_outside_the_image(slot for type, slot in found if type.written)
        for slot in (slot for type, slot in found if type.whole):
            self._check_in_one_piece(slot)
        try:
            results = compute(Operator(row.operator), [self.read_slot(slot) for _, slot in found])
        except ValueError as error:
            raise DivergenceError(str(error)) from None
        for (_, slot), result in zip(found, results, strict=False):
            self._write_slot(slot, np.ascontiguousarray(result, slot.numpy_dtype))
        for slot in (slot for type, slot in found if type.scratch):
            self._write_slot(slot, np.zeros(slot.shape, slot.numpy_dtype))

    def _check_outside_the_image(self, slots: Iterable[Slot]) -> None:
        end = -(-len(self.trace.image) // PAGE_BYTES) * PAGE_BYTES
        for slot in slots:
            if (self._elements(slot) < end).any():
                raise DivergenceError(f"slot {slot.name}, which is written, lies in the image")

    def _check_in_one_piece(self, slot: Slot) -> None:
        pages = list(pages_of(slot.address, slot.span))
        frames = [self.tables.translate(slot.address_space, page * PAGE_BYTES) // PAGE_BYTES for page in pages]
        if frames != list(range(frames[0], frames[0] + len(pages))):
            raise DivergenceError(f"slot {slot.name}: its pages do not follow one another in memory")
        end = -(-len(self.trace.image) // PAGE_BYTES)
        if frames[0] < end <= frames[-1]:
            raise DivergenceError(f"slot {slot.name} begins in the image and ends behind it")

    def read_slot(self, slot: Slot) -> NDArray[Any]:
        """The slot's tensor as it is in memory now."""
        data = np.empty(slot.shape, slot.numpy_dtype)
        flat = data.reshape(-1).view(np.uint8)
        if data.strides == slot.strides:
            for at, part in self._pages(slot):
                flat[part] = self.memory[at : at + part.stop - part.start]
        else:
            flat.reshape(-1, data.itemsize)[:] = self.memory[self._elements(slot)]
        return data


def _whole_pages(start: int, end: int) -> tuple[int, int]:
    """The part of some bytes that is whole pages of the system's; empty where the first value is not smaller."""
    return -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE


@contextmanager
def interpreter(trace: Trace, *, track: bool = False, threads: int = 0) -> Iterator[Interpreter]:
    """An Interpreter that is closed at the end."""
    run = Interpreter(trace, track, threads)
    try:
        yield run
    finally:
        run.close()
