# SPDX-License-Identifier: BSD-2-Clause
"""What the GPU finds in memory when a job starts: an interpreter that follows job chains as the GPU does.

It shares nothing with host_tools/gpus/mali/job_chains.py, so that each can be held against the other. Descriptor
layouts: Mesa 22.3.6 src/panfrost/lib/genxml/v6.xml. A compute job has 192 bytes: header 32, invocation and
parameters 32, draw 128; others have what their type needs.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_tools.families.page_tables import DivergenceError
from host_tools.model.interpreter import Interpreter
from host_tools.support.pages import pages_of
from trace_format.actions import MAP_EXECUTE, MAP_WRITE, Action, Op, actions_of
from trace_format.profile import Profile
from trace_format.schema import SlotKind
from trace_format.trace import Trace

PAGE = 4096
LATENCY_NS = 6_000  # of the recorded machine's power transitions
ADDRESS = (1 << 48) - 1
Values = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Part:
    """Bytes that a job names: what they are, where they lie."""

    what: str
    space: int
    va: int
    size: int


Found = dict[Part, NDArray[np.uint8]]


class Watch(Interpreter):
    """Looks at memory whenever a job is started: at what its chain names, or at given parts.

    Attributes:
        parts: what to look at, by job; None: what the chains name.
        dirt: byte that fills the pages of the parts, as far as they lie after the image, before each replay; if
            jobs run in the prologue, before that: what is there then stays for all replays.
        once: how many jobs run in the prologue.
        jobs: what was found, by job of the latest replay.
    """

    def __post_init__(self) -> None:
        self.variant = "noshaders"  # the programs are none
        super().__post_init__()
        self.parts: list[list[Part]] | None = None
        self.dirt: int | None = None
        self.jobs: list[Found] = []
        rows = [row.op for row in actions_of(self.trace.actions)]
        self.once = rows[: rows.index(Op.REPLAY_START)].count(Op.JOB) if Op.REPLAY_START in rows else 0
        self.first = 0  # number of the first job of this run
        self.soiled = False
        self.start = _starts(self.gpu_profile)
        self.code = _frames(self.trace, MAP_EXECUTE)

    def run(self, inputs: Values | None = None) -> dict[str, NDArray[np.float32]]:
        self.jobs = []
        self.first = self.once if self.started else 0
        self.soiled = False
        if self.started and not self.once:
            self._soil()
        return super().run(inputs)

    def _step(self, row: Action) -> None:
        fills = Op.UPLOAD, Op.CLEAR, Op.COPY_TO_GPU
        if row.op == Op.REPLAY_START and not self.once:
            self._soil()
        elif row.op in fills and self.once and not self.first and not self.soiled:
            self._soil()  # once, in the prologue
            self.soiled = True
        elif row.op == Op.REG_WRITE and row.register in self.start and row.value == 1:
            if self.parts is None:
                parts = list(self._chain(self.start[row.register]))
            else:
                parts = self.parts[self.first + len(self.jobs)]
            self.jobs.append({part: self._read(part) for part in parts})
        super()._step(row)

    def _soil(self) -> None:
        if self.dirt is None or self.parts is None:
            return
        pages = {
            (part.space, page)
            for job in self.parts
            for part in job
            for page in range(part.va // PAGE, (part.va + part.size - 1) // PAGE + 1)
        }
        for space, page in pages:
            at = self.tables.translate(space, page * PAGE)
            if at >= len(self.trace.image):
                self.memory[at : at + PAGE] = self.dirt

    def _read(self, part: Part) -> NDArray[np.uint8]:
        va, end, pieces = part.va, part.va + part.size, []
        while va < end:
            here = min(end - va, PAGE - va % PAGE)
            at = self.tables.translate(part.space, va)
            pieces.append(self.memory[at : at + here])
            va += here
        return np.concatenate(pieces)

    def _chain(self, slot: int) -> Iterator[Part]:
        def register(offset: int) -> int:
            return self.gpu.read32(0x1800 + 0x80 * slot + offset)

        space = register(0x58) & 15
        va = register(0x40) | register(0x44) << 32
        while va:
            header = Part("header", space, va, 32)
            yield header
            _, _, _, control, _, _, following = struct.unpack("<IIQIHHQ", self._read(header).tobytes())
            kind = control >> 1 & 0x7F
            if kind == 4:
                job = Part("compute job", space, va, 192)
                yield job
                yield from self._compute(space, self._read(job).tobytes())
            elif kind in (2, 3):
                yield Part("payload", space, va + 32, {2: 24, 3: 8}[kind])
            else:
                assert kind == 1, f"job type {kind}"
            va = following

    def _compute(self, space: int, job: bytes) -> Iterator[Part]:
        buffers, push, state, storage = (
            int(struct.unpack_from("<Q", job, 64 + at)[0]) & ADDRESS for at in (24, 48, 56, 112)
        )
        renderer_state = Part("renderer state", space, state & ~15, 64)
        yield renderer_state
        words = np.frombuffer(self._read(renderer_state).tobytes(), "<u4")
        yield self._shader(space, (int(words[0]) | int(words[1]) << 32) & ADDRESS & ~15)
        count = int(words[4]) & 0xFF
        if count:
            table = Part("table of uniform buffers", space, buffers, 8 * count)
            yield table
            for (entry,) in struct.iter_unpack("<Q", self._read(table).tobytes()):
                if entry:
                    yield Part("uniform buffer", space, entry >> 12 << 4, ((entry & 0xFFF) + 1) * 16)
        if int(words[12]) >> 15 & 0x7F:
            yield Part("push uniforms", space, push, (int(words[12]) >> 15 & 0x7F) * 8)
        if storage:
            yield Part("thread storage", space, storage, 32)

    def _shader(self, space: int, va: int) -> Part:
        """To the end of its buffer: pages of code that follow one another, in the carve-out too."""
        page = va // PAGE
        while self.code.get((space, page + 1)) == self.code[space, page] + 1:
            page += 1
        return Part("shader", space, va, (page + 1) * PAGE - va)


class Touching(Interpreter):
    """Executes shaders, and notes the pages that each job accesses, by carve-out offset; `jobs` begins with what
    was accessed before the first one."""

    def __post_init__(self) -> None:
        self.track = True
        super().__post_init__()
        self.jobs: list[set[int]] = []
        self.start = _starts(self.gpu_profile)

    def cut(self) -> None:
        self.jobs.append(set(self.gpu.access_map()))
        self.gpu.clear_access()

    def _step(self, row: Action) -> None:
        if row.op == Op.REG_WRITE and row.register in self.start and row.value == 1:
            self.cut()
        super()._step(row)


class Reference:
    """What the jobs of a trace find, to compare other traces with that should do the same.

    A raw trace does not say what all of the bytes are: those that differ with what lay in memory before are not
    compared.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.inputs = {
            s.name: np.full(s.shape, i + 1, np.float32)
            for i, s in enumerate(trace.slots)
            if s.kind != SlotKind.OUTPUT
        }
        device = Watch(trace, latency_ns=LATENCY_NS)
        device.run(self.inputs)
        self.jobs = device.jobs
        device.close()
        self.parts = [list(job) for job in self.jobs]
        device = self.device(trace, 0xA5)
        device.run(self.inputs)
        self.known = [
            {part: found == job[part] for part, found in before.items()}
            for before, job in zip(self.jobs, device.jobs, strict=True)
        ]
        self.mapped = device.tables.mapped()
        device.close()

    def device(self, trace: Trace, dirt: int) -> Watch:
        device = Watch(trace, latency_ns=LATENCY_NS)
        device.parts, device.dirt = self.parts, dirt
        return device

    def difference(self, trace: Trace, runs: int = 3) -> str:
        """The first difference in words that replays in a row show, "" when there is none."""
        slots = {s.name: s for s in self.trace.slots}
        if {s.name: s for s in trace.slots} != slots:
            return "slots differ"
        device = self.device(trace, 0)
        try:
            for run in range(1, runs + 1):
                device.dirt = 0x5A * run & 0xFF
                device.run(self.inputs)
                counters = device.gpu.counters()
                jobs = device.once + run * (len(self.jobs) - device.once)
                if (counters.jobs, counters.faults) != (jobs, 0):
                    return f"replay {run}: {counters.jobs} jobs, {counters.faults} faults"
                for index, job in enumerate(device.jobs, device.first):
                    for part, found in job.items():
                        known = self.known[index][part]
                        if (found != self.jobs[index][part])[known].any():
                            return f"replay {run}, job {index}: {part.what} at {part.va:#x}"
                for name, value in self.inputs.items():
                    if not np.array_equal(device.read_slot(slots[name]), value):
                        return f"replay {run}: slot {name}"
        finally:
            device.close()
        return ""

    @functools.cached_property
    def accessed(self) -> list[set[tuple[int, int]]] | None:
        """Pages that each job accesses, as (address space, page); None: the virtual GPU cannot run them."""
        device = Touching(self.trace, latency_ns=LATENCY_NS)
        try:
            device.run(self.inputs)
            device.cut()
        except DivergenceError:
            return None
        finally:
            device.close()
        assert device.jobs[0] == set()
        return [{key for key, at in self.mapped.items() if at in job} for job in device.jobs[1:]]

    def conflicts(self, trace: Trace) -> list[str]:
        """Memory of two jobs, shared though a job between them uses the other's.

        A page is in use from the first job to the last that accesses it. Where jobs cannot be run, and for storage
        of threads, that is a region, from the first job to the last that has its address in a descriptor: less
        than what chains can reach, but found without following anything.
        """
        uses = self._uses()
        frames = _frames(trace, MAP_WRITE)
        owner: dict[int, list[tuple[int, int, int]]] = {}
        for (space, first, end), (start, last) in uses.items():
            for page in range(first, end):
                if (space, page) in frames:
                    owner.setdefault(frames[space, page], []).append((page, start, last))
        found = []
        for users in owner.values():
            for i, (page, start, last) in enumerate(users):
                for other, other_start, other_last in users[:i]:
                    if page != other and start <= other_last and other_start <= last:
                        found.append(f"pages {page:#x} and {other:#x}")
        return found

    def _uses(self) -> dict[tuple[int, int, int], tuple[int, int]]:
        """(space, first page, end) of each region -> first and last job with an address in it; slots: always."""
        maps = [row for row in actions_of(self.trace.actions) if row.op == Op.MAP_GPU_MEM]
        runs = sorted((row.address_space, row.va_page, row.va_page + row.pages) for row in maps)
        uses: dict[tuple[int, int, int], tuple[int, int]] = {}

        def add(run: tuple[int, int, int], job: int) -> None:
            first, last = uses.get(run, (job, job))
            uses[run] = min(first, job), max(last, job)

        def use(space: int, page: int, job: int) -> None:
            for run in runs:
                if run[0] == space and run[1] <= page < run[2]:
                    add(run, job)

        def exactly(space: int, va: int, size: int, job: int) -> None:
            for page in pages_of(va, size):
                add((space, page, page + 1), job)

        if self.accessed is not None:
            for index, (job, accessed) in enumerate(zip(self.jobs, self.accessed, strict=True)):
                for space, page in accessed:
                    exactly(space, page * PAGE, PAGE, index)
                for part, content in job.items():
                    exactly(part.space, part.va, part.size, index)
                    if part.what == "thread storage":
                        for page in _named(content):
                            use(part.space, page, index)
            for slot in self.trace.slots:
                for index in (0, len(self.jobs)):
                    exactly(slot.address_space, slot.address, slot.span, index)
            return uses
        for index, job in enumerate(self.jobs):
            for part, content in job.items():
                use(part.space, part.va // PAGE, index)
                for page in _named(content) if part.what != "shader" else ():
                    use(part.space, page, index)
        for slot in self.trace.slots:
            for index in (0, len(self.jobs)):
                use(slot.address_space, slot.address // PAGE, index)
        return uses


def _named(content: NDArray[np.uint8]) -> set[int]:
    """Pages whose addresses the words of a descriptor may be."""
    words = np.frombuffer(content.tobytes(), "<u4").astype(np.uint64)
    values = (words[:-1] | words[1:] << np.uint64(32)) & np.uint64(ADDRESS)
    return set((values // np.uint64(PAGE)).tolist())


def _starts(gpu: Profile) -> dict[int, int]:
    """Registers that start jobs: index -> job slot."""
    names = {name: register.index for name, register in gpu.registers.items() if name.endswith(".COMMAND_NEXT")}
    return {index: int(name[2]) for name, index in names.items() if name.startswith("js")}


def _frames(trace: Trace, flag: int) -> dict[tuple[int, int], int]:
    """Frame of every virtual page that is mapped with a flag, by (address space, page)."""
    return {
        (row.address_space, row.va_page + i): row.frame + i
        for row in actions_of(trace.actions)
        if row.op == Op.MAP_GPU_MEM and row.flags & flag
        for i in range(row.pages)
    }
