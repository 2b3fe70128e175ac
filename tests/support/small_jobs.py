# SPDX-License-Identifier: BSD-2-Clause
"""Small traces whose jobs do real work on the virtual V3D: shaders that add, gather, scatter and branch."""

from __future__ import annotations

import numpy as np

from host_tools.gpus.v3d.copies import settle
from tests.support.qpu_asm import assemble
from tests.support.qpu_bench import END, ONE_SECTION
from tests.support.replayer_samples import write
from trace_format.actions import (
    MAP_EXECUTE,
    MAP_READ,
    MAP_WRITE,
    Action,
    Op,
    action,
    actions_of,
    array_of,
    rewritten,
)
from trace_format.operands import Type
from trace_format.schema import PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

# Two pages of image: shaders, uniforms and the input's recorded value; three that are written.
CODE, CONSTANTS, INPUT, SCRATCH, OUTPUT = (0x10000 + PAGE_BYTES * i for i in range(5))
IMAGE_PAGES = 2
BYTES = 64
RECORDED = PAGE_BYTES + 0x800  # where in the image the input's value is

LOAD = "nop; mov tmua, {0}\nnop; nop; ldtmu.{1}\n"
# Uniforms: a, b, c. rf10, rf11, rf12: a, b, c + 4 * lane; rf9: b, rf13: c.
OPERANDS = """
eidx r0; nop; ldunifrf.rf8
shl r0, r0, 2
add rf10, r0, rf8; nop; ldunifrf.rf9
add rf11, r0, rf9; nop; ldunifrf.rf13
add rf12, r0, rf13
"""
STORE = "nop; mov tmud, {0}\nnop; mov tmua, {1}\n"
DELAY = "nop; nop\n" * 3
IS_MAGIC = "nop; mov r1, 13\nshl r1, r1, 11\nxor.pushz -, rf20, r1\n"  # a value that one in 2^32 has
SHADERS = {
    "add": OPERANDS + LOAD.format("rf10", "rf20") + LOAD.format("rf11", "rf21") + "add rf30, rf20, rf21\n"
    + STORE.format("rf30", "rf12"),
    # c = b[a % 16]
    "gather": OPERANDS + LOAD.format("rf10", "rf20") + "and r0, rf20, 15\nshl r0, r0, 2\nadd r0, r0, rf9\n"
    + LOAD.format("r0", "rf30") + STORE.format("rf30", "rf12"),
    # c[a % 16] = a
    "scatter": OPERANDS + LOAD.format("rf10", "rf20") + "and r0, rf20, 15\nshl r0, r0, 2\nadd r0, r0, rf13\n"
    + STORE.format("rf20", "r0"),
    # c = a, after a branch that a decides
    "branch": OPERANDS + LOAD.format("rf10", "rf20") + "add.pushz -, rf20, 0\n"
    "b.alla 0\nnop; nop\nnop; nop\nnop; nop\n"
    + STORE.format("rf20", "rf12"),
    # c = b where a is MAGIC, else a
    "select": OPERANDS + LOAD.format("rf10", "rf20") + LOAD.format("rf11", "rf21") + IS_MAGIC
    + "nop; mov rf30, rf20\nnop; mov.ifa rf30, rf21\n" + STORE.format("rf30", "rf12"),
    # the same by a branch, if all of a are
    "hide": OPERANDS + LOAD.format("rf10", "rf30") + "nop; mov rf20, rf30\n" + IS_MAGIC + "b.anyna 16\n" + DELAY
    + LOAD.format("rf11", "rf30") + STORE.format("rf30", "rf12"),
    # c = b, if all of a are MAGIC, else nothing
    "keep": OPERANDS + LOAD.format("rf10", "rf20") + IS_MAGIC + "b.anyna 32\n" + DELAY
    + LOAD.format("rf11", "rf30") + STORE.format("rf30", "rf12"),
    # c = b[a >> 15]
    "far": OPERANDS + LOAD.format("rf10", "rf20") + "shr r0, rf20, 15\nshl r0, r0, 2\nadd r0, r0, rf9\n"
    + LOAD.format("r0", "rf30") + STORE.format("rf30", "rf12"),
    # c = a + what is in a register
    "register": OPERANDS + LOAD.format("rf10", "rf20") + "add rf30, rf20, rf40\n" + STORE.format("rf30", "rf12"),
}  # fmt: skip
SHADER_BYTES = 0x180
BINARIES = {name: assemble(text + END) for name, text in SHADERS.items()}
STARTS = {name: SHADER_BYTES * i for i, name in enumerate(BINARIES)}

Job = tuple[str, int, int, int]
UPLOAD = action(Op.UPLOAD, bytes=BYTES, target=IMAGE_PAGES * PAGE_BYTES, source=RECORDED)
CLEAR = action(Op.CLEAR, bytes=BYTES, target=(IMAGE_PAGES + 1) * PAGE_BYTES)
PROLOGUE = (
    action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_EXECUTE, pages=IMAGE_PAGES, va_page=CODE >> 12, frame=0),
    action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=3, va_page=INPUT >> 12, frame=IMAGE_PAGES),
    action(Op.SET_GPU_PGTABLE),
    write("hub.MMU_CTL", 0x060D0C01),
    write("hub.MMUC_CONTROL", 3),
    write("hub.MMU_CTL", 0x060D0C05),
    write("core0.INT_MSK_CLR", 0xA7),
    write("hub.INT_MSK_CLR", 0x3A),
)
DOUBLE_TWICE: tuple[Job, ...] = (("add", INPUT, INPUT, SCRATCH), ("add", SCRATCH, SCRATCH, OUTPUT))
ADD_TO_SCRATCH: tuple[Job, ...] = (("add", INPUT, SCRATCH, SCRATCH), ("add", SCRATCH, SCRATCH, OUTPUT))


def slot(name: str, kind: SlotKind, address: int, words: int = 16) -> Slot:
    return Slot(name, kind, DType.INT32, (words,), (4,), address, bound=kind == SlotKind.INPUT)


IN, OUT = slot("in", SlotKind.INPUT, INPUT), slot("out", SlotKind.OUTPUT, OUTPUT)


def job_rows(number: int, name: str, uniforms_at: int = CONSTANTS) -> list[Action]:
    """What starts a job, and waits for it."""
    values = (1 << 16, 1 << 16, 0x110, 0, CODE + STARTS[name] | ONE_SECTION, uniforms_at + 16 * number)
    rows = [write(f"core0.CSD_QUEUED_CFG{i}", value) for i, value in enumerate(values, 1)]
    rows += [action(Op.JOB, number=number), write("core0.CSD_QUEUED_CFG0", 1 << 16)]
    return [*rows, action(Op.WAIT_IRQ, timeout_us=9), write("core0.INT_CLR", 0x80)]


def small(
    *jobs: Job,
    first: tuple[Action, ...] = (UPLOAD, CLEAR),
    once: tuple[Action, ...] = (),
    slots: tuple[Slot, ...] = (IN, OUT),
    last: tuple[Action, ...] = (),
    uniforms_at: int = CONSTANTS,
    **meta: int,
) -> Trace:
    """A trace with these jobs: shader, a, b, c; `first` begins each replay, `once` is done before the first.

    The image has the jobs' uniforms, 16 bytes each, at CONSTANTS; they take them from `uniforms_at` on.
    """
    image = bytearray(IMAGE_PAGES * PAGE_BYTES)
    for name, binary in BINARIES.items():
        assert len(binary) <= SHADER_BYTES
        assert STARTS[name] + SHADER_BYTES <= PAGE_BYTES
        image[STARTS[name] : STARTS[name] + len(binary)] = binary
    rows = [*PROLOGUE, *once, action(Op.REPLAY_START), *first]
    rows += [action(Op.COPY_TO_GPU, slot=i) for i, item in enumerate(slots) if item.kind != SlotKind.OUTPUT]
    for number, (name, *uniforms) in enumerate(jobs):
        at = PAGE_BYTES + 16 * number
        image[at : at + 12] = np.array(uniforms, "<u4").tobytes()
        rows += job_rows(number, name, uniforms_at)
    rows += [action(Op.COPY_FROM_GPU, slot=i) for i, item in enumerate(slots) if item.kind == SlotKind.OUTPUT]
    return Trace(
        "v3d42",
        array_of([*rows, *last]),
        bytes(image),
        8 * PAGE_BYTES,
        64 * PAGE_BYTES,
        list(slots),
        {"name": "small", **meta},
    )


def settled(trace: Trace) -> Trace:
    """The trace with what Linux does after each job."""
    rows: list[Action] = []
    for row in actions_of(trace.actions):
        rows += [row, *(settle(trace.profile) if row.op == Op.REG_WRITE and row.value == 0x80 else ())]
    return trace.with_(actions=array_of(rows))


def weighted(weights: int, work: int = 3) -> Trace:
    """A network of jobs in a row that each add a page of weights, of its own, to what the job before left."""
    places = [INPUT, *(OUTPUT + PAGE_BYTES * (2 + 2 * (i % work)) for i in range(weights - 1)), OUTPUT]
    first = OUTPUT // PAGE_BYTES + 2 * (work + 1)
    jobs = [("add", places[i], (first + i) * PAGE_BYTES, places[i + 1]) for i in range(weights)]
    written = [
        action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=1, va_page=page // PAGE_BYTES, frame=5 + i)
        for i, page in enumerate(sorted({*places[1:-1]}))
    ]
    trace = settled(small(*jobs, once=tuple(written)))

    def behind(frames: np.ndarray) -> np.ndarray:
        return np.where(frames >= IMAGE_PAGES, frames + weights, frames)

    rows = rewritten(trace.actions, behind, Type.FRAME)
    rows = rewritten(
        rows, lambda at: np.where(at >= IMAGE_PAGES * PAGE_BYTES, at + weights * PAGE_BYTES, at), Type.TARGET
    )
    reads = action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=weights, va_page=first, frame=IMAGE_PAGES)
    data = np.random.default_rng(63).integers(0, 1 << 8, weights * PAGE_BYTES // 4, np.int32)
    return trace.with_(
        actions=np.concatenate([array_of([reads]), rows]),
        image=bytes(trace.image) + data.tobytes(),
        carveout_bytes=(8 + work + weights) * PAGE_BYTES,
        va_bytes=(first + weights + 1) * PAGE_BYTES,
    )
