"""The replay of a trace in Python, on a virtual GPU: slow, plain, and independent of the C core.

Passes use it to see which memory a trace's jobs touch, equivalence tests to compare two traces, the recorder to
find outputs. It is the second opinion on what an action means; the firmware's opinion is tee_replayer/.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.gpus.family import family_of
from host_tools.gpus.page_tables import TABLE_BYTES, DivergenceError
from host_tools.support.pages import pieces
from host_tools.vgpu.binding import VgpuError, VirtualGpu
from trace_format.actions import ACTIONS, FLAG_IGNORE, Op, va_page
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.trace import Slot, Trace

MAX_POLLS = 100_000
MAP_NORESERVE = 0x4000  # Linux; the mmap module names it from Python 3.13 on
ALL_BITS = 0xFFFFFFFF


@dataclass
class Interpreter:
    """One device: a carve-out (offset = physical address), page tables behind it, and the virtual GPU.

    Args:
        trace: what to replay.
        track: keep the access map (`host_tools.model.observe` reads it).
        threads: of the virtual GPU; 0: one a core.
        latency_ns: how long the virtual GPU takes for what takes time. Its clock moves with Interval actions and
            while something is waited for.
    """

    trace: Trace
    track: bool = False
    threads: int = 0
    latency_ns: int = 0
    kept: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gpu_profile = self.trace.profile
        size = self.trace.carveout_bytes + TABLE_BYTES
        self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
        self.memory: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)
        self.gpu = VirtualGpu(
            self.trace.gpu,
            {0: self.memory},
            track_access=self.track,
            threads=self.threads,
            latency_ns=self.latency_ns,
        )
        self.now_ns = 0
        make_tables = family_of(self.gpu_profile).page_tables
        self.tables = make_tables(self.gpu, self.gpu_profile, self.memory, self.trace.carveout_bytes)
        image = np.frombuffer(self.trace.image, np.uint8)
        self.memory[: len(image)] = image
        self.outputs: dict[str, NDArray[Any]] = {}
        self.started = False
        self._parameters: dict[str, NDArray[Any] | None] = {}

    def close(self) -> None:
        """Free the virtual GPU and the memory."""
        self.gpu.close()

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
        actions = self.trace.actions
        starts = np.flatnonzero(actions["op"] == Op.REPLAY_START)
        self.inputs = dict(inputs or {})
        parameters = {s.name: self.inputs.get(s.name) for s in self.trace.slots if s.kind == SlotKind.PARAMETER}
        rebound = any(self._parameters.get(name) is not array for name, array in parameters.items())
        first = int(starts[0]) + 1 if len(starts) and self.started and not rebound else 0
        self._parameters = parameters
        self.started = True
        for index in range(first, len(actions)):
            try:
                self._step(actions[index])
            except (DivergenceError, VgpuError) as error:
                name = ACTIONS[Op(int(actions[index]["op"]))].name
                raise DivergenceError(f"action {index} ({name}): {error}") from None
        return self.outputs

    def _step(self, row: np.void) -> None:
        op, arg, value, a, b = (int(row[n]) for n in ("op", "arg", "value", "a", "b"))
        gpu, offset = self.gpu, arg * 4
        if op == Op.REG_READ_ONCE:
            seen = gpu.read32(offset)
            if not int(row["flags"]) & FLAG_IGNORE and (seen ^ value) & a:
                raise DivergenceError(self._differs(offset, value, a, seen))
        elif op == Op.REG_READ_WAIT:
            self._poll(offset, value, a)
        elif op == Op.REG_WRITE:
            old = 0 if a == ALL_BITS else gpu.read32(offset)
            gpu.write32(offset, (old & ~a) | (value & a))
        elif op == Op.REG_READ_KEEP:
            self.kept[b] = gpu.read32(offset)
        elif op == Op.REG_WRITE_KEPT:
            gpu.write32(offset, self.kept[b])
        elif op == Op.SET_GPU_PGTABLE:
            self.tables.set(arg)
        elif op == Op.MAP_GPU_MEM:
            self.tables.map(arg & 15, va_page(row), b, value, int(row["flags"]))
        elif op == Op.UNMAP_GPU_MEM:
            self.tables.unmap(arg & 15, va_page(row), value)
        elif op == Op.UPLOAD:
            self.memory[a : a + value] = self.memory[b : b + value]
        elif op == Op.CLEAR:
            self.memory[a : a + value] = 0
        elif op == Op.COPY_TO_GPU:
            self._copy_in(self.trace.slots[arg])
        elif op == Op.COPY_FROM_GPU:
            slot = self.trace.slots[arg]
            self.outputs[slot.name] = self.read_slot(slot)
        elif op == Op.INTERVAL:
            self._pass(value * 1000)
        elif op == Op.WAIT_IRQ:
            self._wait(arg, value)

    def _pass(self, ns: int) -> None:
        if self.latency_ns:
            self.now_ns += ns
            self.gpu.advance(self.now_ns)

    def _wait(self, line: int, timeout_us: int) -> None:
        if not self.gpu.interrupt_level(line):
            self._pass(min(self.latency_ns, timeout_us * 1000))
        if not self.gpu.interrupt_level(line):
            raise DivergenceError(f"interrupt line {line} stays inactive")

    def _poll(self, offset: int, value: int, mask: int) -> None:
        for _ in range(MAX_POLLS):
            seen = self.gpu.read32(offset)
            if not (seen ^ value) & mask:
                return
            self._pass(1000)
        raise DivergenceError(self._differs(offset, value, mask, seen))

    def _differs(self, offset: int, value: int, mask: int, seen: int) -> str:
        name = self.gpu_profile.describe(offset)
        return f"{name}: expected {value:#010x} under mask {mask:#010x}, found {seen:#010x}"

    def _pages(self, slot: Slot) -> Iterator[tuple[int, slice]]:
        """Of a dense slot: carve-out offset and bytes of the data, page by page."""
        for page, inside, part in pieces(slot.address, slot.span):
            yield self.tables.translate(slot.address_space, page * PAGE_BYTES + inside.start), part

    def _elements(self, slot: Slot) -> NDArray[np.int64]:
        """Carve-out offset of every byte: a row for each element, in C order."""
        offsets = np.zeros(slot.shape, np.int64)
        for axis, (dim, stride) in enumerate(zip(slot.shape, slot.strides, strict=True)):
            offsets += (np.arange(dim) * stride).reshape([-1 if i == axis else 1 for i in range(len(slot.shape))])
        offsets += slot.address
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
        flat = data.reshape(-1).view(np.uint8)
        if data.strides == slot.strides:
            for at, part in self._pages(slot):
                self.memory[at : at + part.stop - part.start] = flat[part]
        else:
            self.memory[self._elements(slot)] = flat.reshape(-1, data.itemsize)

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

    def visible(self) -> dict[tuple[int, int], bytes]:
        """GPU-visible memory: content of every mapped page by (address space, virtual page)."""
        return {key: self.memory[at : at + PAGE_BYTES].tobytes() for key, at in self.tables.mapped().items()}


@contextmanager
def interpreter(trace: Trace, *, track: bool = False, threads: int = 0) -> Iterator[Interpreter]:
    """An Interpreter that is closed at the end."""
    run = Interpreter(trace, track, threads)
    try:
        yield run
    finally:
        run.close()
