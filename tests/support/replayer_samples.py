# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of the replayer share: small traces, signed hostile ones, and a GPU that is only registers."""

from __future__ import annotations

import functools
import hashlib
import mmap
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from numpy.typing import NDArray

from host_tools.extras.sharing import joining
from host_tools.runners import libraries, vgpu
from host_tools.support.cache import cache_dir
from host_tools.vgpu.binding import VirtualGpu
from signing import envelope
from signing.curves import lowered
from signing.sign import FileSigner
from tee_replayer.generator import amalgamate, hostlib
from trace_format import packing, profile
from trace_format.actions import ACTION_DTYPE, ALL_BITS, MAP_READ, MAP_WRITE, Action, Op, action
from trace_format.operators import OPERATORS, Operator
from trace_format.schema import Action as ActionStruct
from trace_format.schema import DType, Section, SectionType, SlotKind
from trace_format.schema import Header as HeaderStruct
from trace_format.schema.trust import KeyKind
from trace_format.slots import Slot
from trace_format.streamed import Piece
from trace_format.trace import Trace

GPU = profile.load("v3d42")
ES256 = FileSigner(ec.derive_private_key(0x6772616D6F70686F6E65, ec.SECP256R1()))  # no secret
KEY = ES256.public
CARVEOUT_PHYS = 0x1_0000_0000
CARVEOUT_BYTES = 1 << 18
PAGE = 4096
VA = 0x10  # first virtual page of the sample's working memory
MEMORY_PAGE = 4  # where it lies in the carve-out
MMU_ON = 0x060D0C01
IMAGE = bytes(range(256)) * 8
IDENT = {
    "v3d42": {"hub.IDENT1": 0x124, "hub.IDENT3": 0xE00},
    "v3d71": {"hub.IDENT1": 0x117, "hub.IDENT3": 0x700},
    "mali_g71": {"gpu.GPU_ID": 0x60A00002, "gpu.SHADER_PRESENT_LO": 0xFF},
    "mali_g72": {"gpu.GPU_ID": 0x62210030, "gpu.SHADER_PRESENT_LO": 0x7},
    "mali_g52r1": {"gpu.GPU_ID": 0x74021000, "gpu.SHADER_PRESENT_LO": 0x1},
    "mali_g31": {"gpu.GPU_ID": 0x70930000, "gpu.SHADER_PRESENT_LO": 0x1},
}


def register(name: str) -> int:
    """Word index of a register: the operand of register actions."""
    return GPU.register(name).index


def read(name: str, expected: int, mask: int = ALL_BITS) -> Action:
    """RegReadOnce."""
    return action(Op.REG_READ_ONCE, register=register(name), expected=expected, mask=mask)


def write(name: str, value: int, mask: int = ALL_BITS) -> Action:
    """RegWrite."""
    return action(Op.REG_WRITE, register=register(name), value=value, mask=mask)


PROLOGUE = (
    action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=4, a=VA, frame=MEMORY_PAGE),
    action(Op.SET_GPU_PGTABLE),
    write("hub.MMU_CTL", MMU_ON),
    action(Op.UPLOAD, bytes=100, target=MEMORY_PAGE * PAGE, source=8),
    action(Op.REPLAY_START),
)
REPLAY = (
    action(Op.COPY_TO_GPU, slot=0),
    action(Op.JOB, number=0),
    write("core0.INT_CLR", 0x80),
    action(Op.COPY_FROM_GPU, slot=1),
)


def streamed(**changes: Any) -> Trace:
    """A small trace of four jobs with four pieces: one is resident, two share a page one after the other."""
    jobs = (action(Op.JOB, number=number) for number in range(4))
    pieces = [
        Piece(1, 0, 0, 3, bytes([1]) * PAGE, resident=True),
        Piece(12, 0, 0, 1, bytes([2]) * PAGE),
        Piece(13, 0, 1, 2, bytes([3]) * 2 * PAGE),
        Piece(12, 2, 2, 3, bytes([4]) * PAGE),
    ]
    return trace(*PROLOGUE, REPLAY[0], *jobs, *REPLAY[2:], streamed=pieces).with_(**changes)


def slots(shape: tuple[int, ...] = (2, 3), strides: tuple[int, ...] = (64, 4), bound: bool = True) -> list[Slot]:
    """An input and an output in the same memory, so that what goes in comes out."""
    where = (VA + 1) * PAGE
    return [
        Slot("in", SlotKind.INPUT, DType.FLOAT32, shape, strides, where, bound=bound),
        Slot("out", SlotKind.OUTPUT, DType.FLOAT32, shape, strides, where),
    ]


def trace(*actions: Action, **changes: Any) -> Trace:
    """A small trace; without actions, one that copies its input through GPU memory."""
    return Trace(
        "v3d42",
        np.array(list(actions or PROLOGUE + REPLAY), dtype=ACTION_DTYPE),
        IMAGE,
        carveout_bytes=16 * PAGE,
        va_bytes=32 * PAGE,
        slots=slots(),
        meta={"name": "small"},
    ).with_(**changes)


def joint(count: int = 2, **changes: Any) -> Trace:
    """So many small traces as one, whose networks are called a, b ...; `changes`: of the joint trace."""
    rows = [joining.Joining(chr(ord("a") + index), trace()) for index in range(count)]
    return joining.joint(rows, "small").trace.with_(**changes)


def apart() -> Trace:
    """Two such networks, of which each has a page of the image to itself: page 0 is a's, 1 of both, 2 is b's."""
    both = bytes(PAGE - len(IMAGE)) + b"both".ljust(PAGE, b"\1")
    rows = [joining.Joining(name, trace(image=IMAGE[:-1] + name.encode() + both)) for name in "ab"]
    return joining.joint(rows, "small").trace


def signed(sample: Trace | bytes, **options: Any) -> bytes:
    """Sign a trace as it is: nothing of it is checked, a hostile owner of the key signs what he likes."""
    data = sample if isinstance(sample, bytes) else sample.build(compress=False, **options)
    head = data[: int.from_bytes(data[24:28], "little")]
    signature = lowered(ES256.sign(envelope.to_be_signed(ES256.alg, ES256.kid, head)))
    return envelope.join(envelope.Envelope(ES256.alg, ES256.kid, signature), data)


@dataclass
class Parts:
    """A trace's bytes, to be damaged, then hashed and signed again."""

    data: bytearray

    @classmethod
    def of(cls, sample: Trace | None = None) -> Parts:
        """Of a trace whose sections are stored."""
        return cls(bytearray((sample or trace()).build(compress=False)))

    def section(self, kind: SectionType) -> tuple[int, int]:
        """Where a section's table entry and its data lie."""
        count = int.from_bytes(self.data[36:38], "little")
        for index in range(count):
            at = HeaderStruct.sizeof() + index * Section.sizeof()
            if int.from_bytes(self.data[at : at + 2], "little") == kind:
                return at, int.from_bytes(self.data[at + 8 : at + 16], "little")
        raise ValueError(kind)

    def patch(self, at: int, value: int, size: int) -> Parts:
        """Overwrite a little-endian number."""
        self.data[at : at + size] = value.to_bytes(size, "little")
        return self

    def action(self, index: int, **fields: int) -> Parts:
        """Overwrite fields of an action."""
        at = self.section(SectionType.ACTIONS)[1] + index * ActionStruct.sizeof()
        record = np.frombuffer(bytes(self.data[at : at + ActionStruct.sizeof()]), ACTION_DTYPE).copy()
        for name, value in fields.items():
            record[name] = value
        self.data[at : at + ActionStruct.sizeof()] = record.tobytes()
        return self

    def manifest(self, name: str, value: int) -> Parts:
        """Overwrite a field of the manifest."""
        return self._field(self.section(SectionType.MANIFEST)[1], "manifest", name, value)

    def slot(self, index: int, name: str, value: int) -> Parts:
        """Overwrite a field of a slot (of a list: its first item)."""
        size = packing.shape_of("slot").sizeof()
        return self._field(self.section(SectionType.SLOTS)[1] + index * size, "slot", name, value)

    def network(self, index: int, name: str, value: int) -> Parts:
        """Overwrite a field of a network."""
        size = packing.shape_of("network").sizeof()
        return self._field(self.section(SectionType.NETWORKS)[1] + index * size, "network", name, value)

    def piece(self, index: int, name: str, value: int) -> Parts:
        """Overwrite a field of a piece."""
        size = packing.shape_of("piece").sizeof()
        return self._field(self.section(SectionType.PIECES)[1] + index * size, "piece", name, value)

    def reach(self, page: int, networks: int) -> Parts:
        """Overwrite the bits of the networks that reach a page of the image."""
        entry, at = self.section(SectionType.NETWORKS)
        size = int.from_bytes(self.data[entry + 16 : entry + 24], "little")
        row = packing.unpack("network", bytes(self.data[at : at + packing.size_of("network")]), at)
        return self.patch(at + size - row["first_page"] + page, networks, 1)

    def entry(self, kind: SectionType, name: str, value: int) -> Parts:
        """Overwrite a field of a section's table entry."""
        return self._field(self.section(kind)[0], "section", name, value)

    def header(self, name: str, value: int) -> Parts:
        """Overwrite a field of the header."""
        return self._field(0, "header", name, value)

    def _field(self, at: int, structure: str, name: str, value: int) -> Parts:
        for item in packing.shape_of(structure).subcons:
            if item.name == name:
                size = item.sizeof()
                return self.patch(at, value, min(size, 8) if size % 4 == 0 and size > 8 else size)
            at += item.sizeof()
        raise ValueError(name)

    def signed(self) -> bytes:
        """Hash the chunks again and sign."""
        head, chunk = (int.from_bytes(self.data[at : at + 4], "little") for at in (24, 28))
        at = self.section(SectionType.CHUNKS)[1]
        for start in range(head, len(self.data), chunk or len(self.data)):
            digest = hashlib.sha256(self.data[start : start + chunk]).digest()
            self.data[at : at + 32] = digest
            at += 32
        return signed(bytes(self.data))


@dataclass
class Registers:
    """A GPU that is only registers: a write is kept, a read gives what was written or `values` says.

    `on_write` may change `values`; `log` has every write.
    """

    gpu: profile.Profile = GPU
    values: dict[int, int] = field(default_factory=dict)
    log: list[tuple[str, int]] = field(default_factory=list)
    on_write: Callable[[str, int], None] = lambda name, value: None
    interrupt: bool = False

    def __post_init__(self) -> None:
        ffi = hostlib._ffi()
        self.values |= {self.gpu.register(name).offset: value for name, value in IDENT[self.gpu.name].items()}

        @ffi.callback("uint32_t(void *, uint32_t)")  # type: ignore[untyped-decorator]
        def read32(_ctx: Any, offset: int) -> int:
            return self.values.get(offset, 0)

        @ffi.callback("void(void *, uint32_t, uint32_t)")  # type: ignore[untyped-decorator]
        def write32(_ctx: Any, offset: int, value: int) -> None:
            name = self.gpu.describe(offset)
            self.log.append((name, value))
            taken = name.endswith("COMMAND_NEXT")  # a Mali's job slot takes the next job at once
            known = self.gpu.by_offset.get(offset)
            done = value & ~known.busy if known else value  # what it has been told to do is done at once
            self.values[offset] = 0 if taken else done
            self.on_write(name, value)

        @ffi.callback("bool(void *, unsigned)")  # type: ignore[untyped-decorator]
        def level(_ctx: Any, _line: int) -> bool:
            return self.interrupt

        self.c_interface = (ffi.NULL, read32, write32, level, ffi.NULL)

    def set(self, name: str, value: int) -> None:
        """Give a register a value."""
        self.values[self.gpu.register(name).offset] = value

    @property
    def resets(self) -> int:
        """How often the GPU was reset."""
        return self.log.count(("bridge.SW_INIT_1", 1))


def library(
    gpu: profile.Profile = GPU,
    operators: Collection[Operator] = tuple(OPERATORS),
    *,
    trust: bool = False,
    algorithms: Collection[KeyKind] = tuple(KeyKind),
    networks: int = 0,
    steps: bool = False,
    schedule: int = 0,
    streaming: bool = False,
) -> Path:
    """The replayer for this machine; skips where the crypto libraries' sources cannot be obtained."""
    macros = (amalgamate.HAS_STREAMING,) if streaming else ()
    options = {"trust": trust, "networks": networks, "steps": steps, "schedule": schedule, "macros": macros}
    if gpu is profile.load(gpu.name):
        return _kept(gpu.name, tuple(operators), tuple(algorithms), **options)
    return _built(gpu, tuple(operators), tuple(algorithms), **options)


@functools.cache
def _kept(name: str, *linked: Any, **options: Any) -> Path:
    """Looked up once: to hash all sources for each device takes longer than most tests."""
    return _built(profile.load(name), *linked, **options)


def _built(
    gpu: profile.Profile,
    operators: tuple[Operator, ...],
    algorithms: tuple[KeyKind, ...],
    **options: Any,
) -> Path:
    try:
        crypto = libraries.source()
    except OSError as error:
        pytest.skip(f"the crypto libraries' sources cannot be fetched: {error}")
    return hostlib.build(
        gpu,
        crypto,
        cache_dir("replayer"),
        linked_operators=operators,
        algorithms=algorithms,
        firmware=vgpu.stand_in(gpu),
        **options,
    )


class Device:
    """The replayer with a carve-out and a GPU that is only registers."""

    def __init__(
        self,
        gpu: Registers | None = None,
        carveout_bytes: int = CARVEOUT_BYTES,
        networks: int = 0,
        schedule: int = 0,
        streaming: bool = False,
    ) -> None:
        self.gpu = gpu or Registers()
        self.memory = bytearray(carveout_bytes)
        self.replayer = hostlib.HostReplayer(
            library(
                self.gpu.gpu,
                networks=networks,
                steps=bool(schedule),
                schedule=schedule,
                streaming=streaming,
            ),
            self.gpu.gpu,
            self.gpu.c_interface,
            self.memory,
            CARVEOUT_PHYS,
        )

    @property
    def is_wiped(self) -> bool:
        """Whether nothing is left in the carve-out."""
        return self.memory.count(0) == len(self.memory)


class Virtual:
    """The replayer with a trace that it has loaded, and a GPU that computes; `virtual` makes one."""

    def __init__(self, sample: Trace, gpu: VirtualGpu, memory: mmap.mmap) -> None:
        self.trace, self.memory = sample, memory
        self.replayer = hostlib.HostReplayer(library(), GPU, gpu.c_interface, memory, CARVEOUT_PHYS)
        self.replayer.load(signed(sample), KEY)

    def bind(self, name: str, data: NDArray[Any]) -> NDArray[Any]:
        """Bind an array to a slot; returns it."""
        self.replayer.bind([slot.name for slot in self.trace.slots].index(name), data)
        return data


@contextmanager
def virtual(sample: Trace) -> Iterator[Virtual]:
    """A device with a virtual V3D that has loaded the trace."""
    memory = mmap.mmap(-1, sample.carveout_bytes + (1 << 20))
    with VirtualGpu("v3d42", {CARVEOUT_PHYS: memory}) as gpu:
        yield Virtual(sample, gpu, memory)
