# SPDX-License-Identifier: BSD-2-Clause
"""A bench for QPU code: a piece of memory, a shader, a dispatch (ctypes over v3d_csd_run)."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from host_tools.vgpu import build
from host_tools.vgpu.binding import Dispatch
from tests.support.qpu_asm import assemble
from tests.support.qpu_asm71 import assemble as assemble71

V3D = build.HERE.parent / "gpus" / "v3d" / "vgpu" / "qpu"
BASE = 0x10000  # GPU address of the memory
PAGES = 64
READ_ONLY = 48  # first page that is not writable
CODE, UNIFORMS, DATA = BASE, BASE + 0x8000, BASE + 0x10000
PROPAGATE_NAN, SINGLE_SEGMENT, FOUR_THREADS = 4, 2, 1

U32 = npt.NDArray[np.uint32]


class _Flat(ctypes.Structure):
    _fields_ = [(n, ctypes.c_void_p) for n in ["memory", "noted"]]
    _fields_ += [(n, ctypes.c_uint32) for n in ["va", "bytes", "writable"]]


class _Flow(ctypes.Structure):
    _fields_ = [("labels", ctypes.c_void_p), ("bytes", ctypes.c_uint64)]
    _fields_ += [
        (n, ctypes.c_uint32) for n in ["implicit", "registers", "read", "addresses", "control", "commands"]
    ]
    _fields_ += [(n, ctypes.c_void_p) for n in ["branch", "ctx"]]


class _Result(ctypes.Structure):
    _fields_ = [
        ("instructions", ctypes.c_uint64),
        ("bytes_read", ctypes.c_uint64),
        ("bytes_written", ctypes.c_uint64),
        ("varies", ctypes.c_bool),
        ("faulted", ctypes.c_bool),
        ("fault_write", ctypes.c_bool),
        ("fault_va", ctypes.c_uint32),
        ("error", ctypes.c_char * 256),
    ]


class _Row(ctypes.Structure):
    _fields_ = [
        (field.name, ctypes.c_uint32 if field.name in ("registers", "resident") else ctypes.c_uint64)
        for field in dataclasses.fields(Dispatch)
    ]


@functools.cache
def library() -> ctypes.CDLL:
    """The compute engine with a flat MMU."""
    own = [*sorted(V3D.glob("*.c")), build.HERE / "workers.c", build.HERE / "meter.c"]
    mmu = Path(__file__).parents[1] / "vgpu" / "flat_mmu.c"
    return ctypes.CDLL(str(build.shared_object("qpu-bench", [*own, mmu])))


def disassemble(word: int, version: int = 42) -> str:
    """Text of one instruction, or "!" and a reason."""
    text = ctypes.create_string_buffer(256)
    decoded = library().v3d_qpu_describe(version, ctypes.c_uint64(word), text, ctypes.c_size_t(256)) & 1
    return ("" if decoded else "!") + text.value.decode()


@dataclass
class Outcome:
    """What v3d_csd_run reported, and the memory afterwards; `noted`: the access map, ACCESS_* of each byte."""

    instructions: int
    bytes_read: int
    bytes_written: int
    fault: tuple[int, bool] | None
    error: str
    touched: npt.NDArray[np.uint8]
    varies: bool
    noted: npt.NDArray[np.uint8]
    memory: U32
    labels: U32 | None
    read: int
    addresses: int
    control: int
    commands: int
    row: Dispatch | None

    def words(self, va: int, count: int) -> U32:
        return self.memory[(va - BASE) // 4 :][:count]

    def labels_at(self, va: int, count: int) -> U32:
        """Of the bytes from `va` on."""
        assert self.labels is not None
        return self.labels[va - BASE :][:count]


@dataclass(frozen=True)
class Follow:
    """Labels that memory has before: GPU address -> one a byte. Implicit and registers: as in vgpu.h."""

    labels: dict[int, npt.ArrayLike]
    implicit: int = 0xFFFFFFFF
    registers: int = 0


def dispatch(
    code: str | bytes,
    uniforms: list[int],
    data: npt.ArrayLike = (),
    *,
    groups: tuple[int, int, int] = (1, 1, 1),
    size: int = 16,
    per_supergroup: int = 1,
    flags: int = PROPAGATE_NAN,
    threads: int = 1,
    limit: int = 0,
    track: bool = False,
    follow: Follow | None = None,
    meter: bool = False,
    cfg: dict[int, int] | None = None,
    version: int = 42,
) -> Outcome:
    """Runs a shader. `data` (words) goes to DATA; `cfg` overrides configuration words; `version`: of the GPU;
    `meter`: count what takes time, with caches of 1 and 4 KiB."""
    raw = np.zeros(PAGES * 4096 + 4096, np.uint8)
    start = -raw.ctypes.data % 4096
    memory = raw[start : start + PAGES * 4096].view(np.uint32)
    binary = code if isinstance(code, bytes) else (assemble if version == 42 else assemble71)(code)
    memory.view(np.uint8)[: len(binary)] = np.frombuffer(binary, np.uint8)
    memory[(UNIFORMS - BASE) // 4 :][: len(uniforms)] = np.array(uniforms, np.uint64).astype(np.uint32)
    values = np.asarray(data, np.uint32).ravel()
    memory[(DATA - BASE) // 4 :][: values.size] = values
    total = int(np.prod(groups))
    full, rest = divmod(total, per_supergroup)
    batches = full * -(-per_supergroup * size // 16) + -(-rest * size // 16)
    words = [count << 16 for count in groups]
    words += [(-(-per_supergroup * size // 16) - 1) << 12 | (per_supergroup & 15) << 8 | size & 255]
    words += [batches - (version == 42), CODE | (flags if version == 42 else flags & ~PROPAGATE_NAN), UNIFORMS]
    for index, value in (cfg or {}).items():
        words[index] = value
    noted = np.zeros(PAGES * 4096, np.uint8)
    flat = _Flat(memory.ctypes.data, noted.ctypes.data, BASE, PAGES * 4096, READ_ONLY * 4096)
    counted = _Row()
    result, touched = _Result(), np.zeros(PAGES, np.uint8)
    labels = np.zeros(PAGES * 4096, np.uint32)
    flow = _Flow(labels.ctypes.data, labels.size)
    if follow:
        flow.implicit, flow.registers = follow.implicit, follow.registers
        for va, row in follow.labels.items():
            given = np.asarray(row, np.uint32)
            labels[va - BASE :][: given.size] = given
    configuration = (ctypes.c_uint32 * 7)(*words)
    status = library().flat_run(
        ctypes.byref(flat),
        version,
        configuration,
        threads,
        ctypes.c_uint64(limit),
        track,
        ctypes.byref(result),
        touched.ctypes.data_as(ctypes.c_void_p),
        ctypes.byref(flow) if follow else None,
        ctypes.byref(counted) if meter else None,
    )
    assert status == 0
    return Outcome(
        result.instructions,
        result.bytes_read,
        result.bytes_written,
        (result.fault_va, result.fault_write) if result.faulted else None,
        result.error.decode(),
        touched,
        result.varies,
        noted,
        memory.copy(),
        labels if follow else None,
        flow.read,
        flow.addresses,
        flow.control,
        flow.commands,
        Dispatch(*(getattr(counted, field.name) for field in dataclasses.fields(Dispatch))) if meter else None,
    )


ONE_SECTION = PROPAGATE_NAN | SINGLE_SEGMENT
# rf10: DATA + 4 * lane; takes one uniform.
LANE_ADDRESS = "eidx r0; nop; ldunifrf.rf9\nshl r0, r0, 2\nadd rf10, r0, rf9\n"
STORE_RF30 = "nop; mov tmud, rf30\nnop; mov tmua, rf10\n"

# Ends a thread that has one section (flags=SINGLE_SEGMENT) or the last of several.
END = "nop; nop; thrsw\nnop; nop\nnop; nop\n"


def float_bits(values: npt.ArrayLike) -> U32:
    return np.asarray(values, np.float32).view(np.uint32)


def counted_items(per_z: int) -> str:
    """A shader's start: rf30 becomes 1 + what was there before, rf10 the place, of a word for each item.

    Its number is (x + 3 y + per_z z) * size + local index. Uniforms: 0xffff, 16, 32 - bits of that index, size,
    DATA.
    """
    return f"""
        nop; nop; ldunifrf.rf5                 # 0xffff
        nop; nop; ldunifrf.rf6                 # 16
        nop; nop; ldunifrf.rf7                 # 32 - bits
        and rf11, rf0, rf5
        shr rf12, rf0, rf6
        and rf13, rf2, rf5
        shr rf14, rf2, rf7
        nop; umul24 r0, rf12, 3
        add r0, r0, rf11
        nop; umul24 r1, rf13, {per_z}
        add r0, r0, r1; nop; ldunif            # size
        nop; umul24 r0, r0, r5
        add r0, r0, rf14; nop; ldunif          # DATA
        shl r0, r0, 2
        add rf10, r0, r5
        nop; mov tmua, rf10
        nop; nop; ldtmu.r0
        add rf30, r0, 1
    """
