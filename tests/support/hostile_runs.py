# SPDX-License-Identifier: BSD-2-Clause
"""Hostile traces that load, and are stopped when they run: what is wrong depends on the GPU, or on what was done
before. The GPU is the virtual one, so that every device sees the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tests.support import replayer_samples as s
from tests.support.hostile_mali import GPU as MALI_GPU
from tests.support.hostile_mali import mapped as mali_mapped
from tests.support.hostile_mali import write as mali_write
from tests.support.hostile_rows import HUGE, INPUT, MALI, V3D, Hostile, Unseen, good
from tests.support.mali_samples import job_header
from tests.support.replayer_samples import PAGE, VA, read, register, signed, write
from trace_format.actions import MAP_EXECUTE, MAP_READ, MAP_WRITE, Action, Op, action, array_of
from trace_format.schema import DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

WHEN_IT_RUNS = Unseen("it depends on what the GPU does, or on what was done before")
CODE_FLAGS = 5  # propagate NaNs, threading: what Mesa's driver sets besides the address
FREE_VA = VA + 8  # a virtual page that the sample does not map
END = action(Op.REPLAY_START)
WORK = action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=4, va_page=VA, frame=s.MEMORY_PAGE)
IN, OUT = action(Op.COPY_TO_GPU, slot=0), action(Op.COPY_FROM_GPU, slot=1)
WAIT = action(Op.WAIT_IRQ, timeout_us=300)


def stopped(
    name: str,
    status: str,
    *actions: Action,
    gpu: str = V3D,
    slots: list[Slot] | None = None,
    meta: dict[str, Any] | None = None,
    sample: Callable[..., Trace] = good,
    **options: Any,
) -> Hostile:
    """A row of a trace that loads; it is not tried twice."""

    def make() -> bytes:
        found = sample(actions=array_of(actions), slots=slots or [])
        return signed(found.with_(meta=found.meta | {"retry_limit": 0} | (meta or {})))

    return Hostile(name, make, status, WHEN_IT_RUNS, gpu, **options)


def code(flags: int = MAP_READ | MAP_EXECUTE, frame: int = 0) -> Action:
    """Map a page for code."""
    return action(Op.MAP_GPU_MEM, flags=flags, pages=1, va_page=FREE_VA, frame=frame)


def job(page: int = FREE_VA) -> tuple[Action, ...]:
    """Start a compute job whose code begins a page."""
    words = {1: 0x10000, 2: 0x10000, 3: 0x110, 4: 0, 5: page * PAGE | CODE_FLAGS, 6: VA * PAGE, 0: 0x10000}
    return action(Op.JOB), *(write(f"core0.CSD_QUEUED_CFG{n}", value) for n, value in words.items())


def kept(source: str, to: str) -> tuple[Action, ...]:
    """Carry a register's value to another."""
    return (
        action(Op.REG_READ_KEEP, register=register(source), keep=2),
        action(Op.REG_WRITE_KEPT, register=register(to), keep=2),
    )


def slots(address: int = (VA + 1) * PAGE, strides: tuple[int, int] = (64, 4), bound: bool = True) -> list[Slot]:
    """The sample's slots, elsewhere."""
    return [
        dataclasses.replace(slot, address=address, strides=strides, bound=bound and slot.kind == SlotKind.INPUT)
        for slot in s.slots()
    ]


GIVEN = {"in": INPUT}
REMAP = action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_EXECUTE, pages=1, va_page=FREE_VA, frame=s.MEMORY_PAGE)
IMAGE_THERE = action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=1, va_page=VA + 1, frame=0)
UPLOADED = action(Op.UPLOAD, bytes=512, target=s.MEMORY_PAGE * PAGE, source=0)
ONE_PAGE = action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=2, va_page=VA, frame=s.MEMORY_PAGE)
V3D_ROWS = (
    stopped("a fault that is not looked at", "FAULT", WORK, *job()),
    stopped("a fault that is taken for the end", "FAULT", WORK, *job(), WAIT, write("core0.INT_CLR", 0x80)),
    stopped("a job before there is any memory", "FAULT", *job(), WAIT),
    stopped("a trace that ends while a job runs", "BUSY", WORK, code(), *job(), hang=True),
    stopped("a job that never ends", "NO_IRQ", WORK, code(), *job(), WAIT, hang=True),
    stopped("memory mapped under a job", "BUSY", WORK, code(), *job(), code(frame=0), hang=True),
    stopped(
        "memory unmapped under a job",
        "BUSY",
        *(WORK, code(), *job(), action(Op.UNMAP_GPU_MEM, pages=1, va_page=VA)),
        hang=True,
    ),
    # code
    stopped("code outside the image", "RANGE", code(frame=s.MEMORY_PAGE), *job(), starts=False),
    stopped("code that can be written", "RANGE", WORK, *job(VA), starts=False),
    stopped("code that was uploaded", "RANGE", UPLOADED, REMAP, *job(), starts=False),
    stopped("code in the image's place", "RANGE", code(), REMAP, *job(), starts=False),
    stopped("an input as code", "RANGE", WORK, IN, REMAP, *job(VA + 1), slots=slots(), inputs=GIVEN, starts=False),
    stopped(
        "code outside the image, by a kept value",
        "RANGE",
        *(WORK, REMAP, write("core0.CSD_QUEUED_CFG5", FREE_VA * PAGE), write("core0.CTL_L2TFLSTA", 0x10000)),
        *kept("core0.CTL_L2TFLSTA", "core0.CSD_QUEUED_CFG0"),
        starts=False,
    ),
    stopped(
        "code outside the image, by masked writes",
        "RANGE",
        *(WORK, REMAP, write("core0.CSD_QUEUED_CFG5", FREE_VA * PAGE, 0xFFFF000)),
        write("core0.CSD_QUEUED_CFG0", 0x10000, 0xFF0000),
        starts=False,
    ),
    stopped(
        "code whose address was never written",
        "RANGE",
        *(WORK, action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=1, va_page=0, frame=s.MEMORY_PAGE)),
        write("core0.CSD_QUEUED_CFG0", 0x10000),
        starts=False,
    ),
    stopped(
        "code in the page after the image",
        "RANGE",
        *(WORK, action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_EXECUTE, pages=2, va_page=FREE_VA, frame=0)),
        *job(FREE_VA + 1),
        starts=False,
    ),
    # slots
    stopped("a slot where nothing is mapped", "RANGE", IN, slots=slots(), inputs=GIVEN),
    stopped("a result where nothing is mapped", "RANGE", OUT, slots=slots()),
    stopped("a slot over the image", "RANGE", IMAGE_THERE, IN, slots=slots(), inputs=GIVEN),
    stopped("a result from the image", "RANGE", IMAGE_THERE, OUT, slots=slots()),
    stopped(
        "a slot that runs into the image",
        "RANGE",
        WORK,
        IMAGE_THERE,
        IN,
        slots=slots((VA + 1) * PAGE - 64),
        inputs=GIVEN,
    ),
    stopped(
        "a slot whose second row is not mapped", "RANGE", WORK, IN, slots=slots(strides=(0x5000, 4)), inputs=GIVEN
    ),
    stopped(
        "a slot that is not mapped to its end",
        "RANGE",
        ONE_PAGE,
        IN,
        slots=slots((VA + 2) * PAGE - 8),
        inputs=GIVEN,
    ),
    stopped(
        "a slot whose memory is no longer mapped",
        "RANGE",
        WORK,
        action(Op.UNMAP_GPU_MEM, pages=4, va_page=VA),
        IN,
        slots=slots(),
        inputs=GIVEN,
    ),
    stopped("a result that goes in", "ACTION", WORK, action(Op.COPY_TO_GPU, slot=1), slots=slots()),
    stopped("an input that comes out", "ACTION", WORK, action(Op.COPY_FROM_GPU, slot=0), slots=slots()),
    stopped("an input that nobody gives", "UNBOUND", WORK, IN, slots=slots(bound=False)),
    # kept values
    stopped("an identity kept for the MMU", "REGISTER", *kept("hub.IDENT1", "hub.MMU_CTL")),
    stopped("a zero kept for the MMU", "REGISTER", *kept("core0.CSD_STATUS", "hub.MMU_CTL")),
    stopped("an identity kept for a cache", "REGISTER", *kept("hub.IDENT1", "core0.CTL_L2TCACTL")),
    stopped("a value that was never kept, for the MMU", "REGISTER", kept("hub.IDENT1", "hub.MMU_CTL")[1]),
    # time, and what registers say
    stopped("no time at all", "BUDGET", WORK, meta={"time_budget_us": 0}),
    stopped(
        "a pause longer than the time there is",
        "BUDGET",
        action(Op.INTERVAL, us=HUGE),
        meta={"time_budget_us": 3000},
    ),
    stopped(
        "a wait longer than the time there is",
        "BUDGET",
        action(Op.WAIT_IRQ, timeout_us=HUGE),
        meta={"time_budget_us": 3000},
    ),
    stopped(
        "a register waited for longer than the time there is",
        "BUDGET",
        action(Op.REG_READ_WAIT, register=register("core0.INT_STS"), expected=1, mask=1, timeout_us=HUGE),
        meta={"time_budget_us": 3000},
    ),
    stopped(
        "a register that never has the value",
        "TIMEOUT",
        action(Op.REG_READ_WAIT, register=register("core0.INT_STS"), expected=1, mask=1, timeout_us=100),
    ),
    stopped("an interrupt that does not come", "NO_IRQ", WAIT),
    stopped("a register that has another value", "DIVERGED", read("hub.IDENT1", 0x77, 0xFF)),
    stopped("retries without end", "DIVERGED", read("hub.IDENT1", 0x77, 0xFF), meta={"retry_limit": HUGE}),
    stopped(
        "retries longer than the time there is",
        "BUDGET",
        *(action(Op.INTERVAL, us=500), read("hub.IDENT1", 0x77, 0xFF)),
        meta={"retry_limit": HUGE, "time_budget_us": 2000},
    ),
)

JOBS, HEADERS = 0xFFFFAC010, 1  # of the Mali's rows: virtual page of job headers, where they lie
LINE = list(MALI_GPU.interrupts).index("job")
DONE = action(Op.WAIT_IRQ, line=LINE, timeout_us=300)


def mali(actions: Any, slots: list[Slot]) -> Trace:
    """A trace of a Mali whose image is two jobs: one that does nothing, one that has no code."""
    return Trace(
        MALI,
        actions,
        job_header(kind=1) + job_header(),
        carveout_bytes=16 * PAGE,
        va_bytes=1 << MALI_GPU.mmu["va_bits"],
        slots=slots,
        meta={"name": "small", "core_mask": 0xFF},
    )


POWERED = (
    mali_write("gpu.L2_PWRON_LO", 1),
    mali_write("gpu.SHADER_PWRON_LO", 0xFF),
    mali_mapped(JOBS, HEADERS),
    action(Op.UPLOAD, bytes=64, target=HEADERS * PAGE, source=0),
    action(Op.SET_GPU_PGTABLE),
    mali_write("as0.COMMAND", 1),
    mali_write("job.IRQ_MASK", 0xFFFFFFFF),
)


def chain(page: int = JOBS, space: int = 0) -> tuple[Action, ...]:
    """Start a chain of jobs whose first header begins a page."""
    words = {
        "HEAD_NEXT_LO": page << 12 & 0xFFFFFFFF,
        "HEAD_NEXT_HI": page >> 20,
        "AFFINITY_NEXT_LO": 0xFF,
        "AFFINITY_NEXT_HI": 0,
        "CONFIG_NEXT": 0x87B00 | space,
        "COMMAND_NEXT": 1,
    }
    return action(Op.JOB), *(mali_write(f"js1.{name}", value) for name, value in words.items())


def on_mali(name: str, status: str, *actions: Action, **options: Any) -> Hostile:
    """A row of a Mali."""
    return stopped(name, status, *actions, sample=mali, gpu=MALI, **options)


OTHER_JOB = action(Op.UPLOAD, bytes=64, target=HEADERS * PAGE, source=64)
RESET = (mali_write("gpu.COMMAND", 1), *POWERED[:2], mali_write("job.IRQ_MASK", 0xFFFFFFFF))
OUTPUT = [Slot("x", SlotKind.OUTPUT, DType.FLOAT32, (4,), (4,), JOBS << 12)]
RESULT = action(Op.COPY_FROM_GPU)
MALI_ROWS = (
    on_mali("a fault that is not looked at", "FAULT", *POWERED, *chain(JOBS + 1)),
    on_mali("a fault that is taken for the end", "FAULT", *POWERED, *chain(JOBS + 1), DONE),
    on_mali("a job without a table", "FAULT", *POWERED[:2], *chain(), DONE),
    on_mali("a job in an address space that is off", "FAULT", *POWERED, *chain(space=5), DONE),
    *(
        on_mali(
            f"a job while address space {space} is locked",
            "REGISTER",
            *POWERED,
            mali_write(f"as{space}.COMMAND", 2),
            *more,
            *chain(),
            DONE,
        )
        for space, more in ((0, ()), (7, ()), (1, (mali_write("as0.COMMAND", 3), mali_write("as1.COMMAND", 1))))
    ),
    on_mali("a job after a reset by the trace", "FAULT", *POWERED, OTHER_JOB, *RESET, *chain(), DONE),
    on_mali("a chain in the image", "FAULT", *POWERED, mali_mapped(JOBS, 0, MAP_READ), *chain(), DONE),
    on_mali("a trace that ends while a job runs", "BUSY", *POWERED, *chain(), hang=True),
    on_mali("a job that never ends", "NO_IRQ", *POWERED, *chain(), DONE, hang=True),
    on_mali("a reset in mid-job", "BUSY", *POWERED, *chain(), mali_write("gpu.COMMAND", 1), hang=True),
    on_mali(
        "shaders switched off in mid-job",
        "BUSY",
        *POWERED,
        *chain(),
        mali_write("gpu.SHADER_PWROFF_LO", 1),
        hang=True,
    ),
    on_mali(
        "the cache switched off in mid-job",
        "BUSY",
        *POWERED,
        *chain(),
        mali_write("gpu.L2_PWROFF_LO", 1),
        hang=True,
    ),
    on_mali(
        "an address space changed in mid-job", "BUSY", *POWERED, *chain(), mali_write("as0.COMMAND", 1), hang=True
    ),
    on_mali("a result from the image", "RANGE", mali_mapped(JOBS, 0, MAP_READ), RESULT, slots=OUTPUT),
    on_mali("a result where nothing is mapped", "RANGE", RESULT, slots=OUTPUT),
    on_mali(
        "a result in another address space", "RANGE", mali_mapped(JOBS, HEADERS, space=2), RESULT, slots=OUTPUT
    ),
    on_mali(
        "an identity kept for a command",
        "REGISTER",
        action(Op.REG_READ_KEEP, register=MALI_GPU.register("gpu.GPU_ID").index, keep=1),
        action(Op.REG_WRITE_KEPT, register=MALI_GPU.register("gpu.COMMAND").index, keep=1),
    ),
    on_mali(
        "an identity kept for a fault",
        "REGISTER",
        action(Op.REG_READ_KEEP, register=MALI_GPU.register("gpu.GPU_ID").index, keep=1),
        action(Op.REG_WRITE_KEPT, register=MALI_GPU.register("mmu.IRQ_MASK").index, keep=1),
        action(Op.REG_WRITE_KEPT, register=MALI_GPU.register("job.IRQ_CLEAR").index, keep=1),
    ),
)
ROWS = V3D_ROWS + MALI_ROWS
# Nothing is wrong with these: what the rows do besides is allowed.
GOOD = (
    stopped("good: slots", "OK", WORK, IN, OUT, slots=slots(), inputs=GIVEN),
    on_mali("good: a chain", "OK", *POWERED, *chain(), DONE),
    on_mali("good: a slot", "OK", *POWERED, RESULT, slots=OUTPUT),
)
