# SPDX-License-Identifier: BSD-2-Clause
"""Hostile traces for the Mali: its policy, its eight address spaces, code outside the image, its identity."""

from __future__ import annotations

from tests.support import replayer_samples as s
from tests.support.hostile_rows import MALI, REG, Row, Unseen, access, at, field, rows
from tests.support.replayer_samples import PAGE, Parts
from trace_format import errors, profile
from trace_format.actions import ALL_BITS, MAP_EXECUTE, MAP_READ, MAP_WRITE, Action, Op, action, array_of
from trace_format.policy import PolicyError
from trace_format.schema import HEADER_FLAG_RAW, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

GPU = profile.load(MALI)
SPACES, LINES = GPU.address_spaces, len(GPU.interrupts)
VA, SPACE, MEMORY_PAGE = 0xFFFFAC000, 3, 1  # of the sample's memory: virtual page, address space, place
IMAGE = bytes(range(256)) * 4
IMAGE_PAGES, CARVEOUT_PAGES = 1, 16
MAP, TABLE, CODE = 0, 1, 3  # indices of the sample's actions
RWX, RX = MAP_READ | MAP_WRITE | MAP_EXECUTE, MAP_READ | MAP_EXECUTE
RANGE = errors.ActionRangeError
OF_THE_DEVICE = Unseen("only the device knows what it has")


def write(name: str, value: int) -> Action:
    """RegWrite."""
    return action(Op.REG_WRITE, register=GPU.register(name).index, value=value, mask=ALL_BITS)


def mapped(page: int, frame: int, flags: int = MAP_READ | MAP_WRITE, pages: int = 1, space: int = 0) -> Action:
    """MapGpuMem."""
    return action(Op.MAP_GPU_MEM, flags=flags, pages=pages, va_page=page, frame=frame, address_space=space)


def slot(address: int = (VA << 12) + 0x800, space: int = SPACE) -> Slot:
    """An output in the sample's memory."""
    return Slot("x", SlotKind.OUTPUT, DType.FLOAT32, (4,), (4,), address, address_space=space, bound=False)


def good() -> Trace:
    """A small trace of a Mali; nothing is wrong with it."""
    rows_ = [
        mapped(VA, MEMORY_PAGE, pages=4, space=SPACE),
        action(Op.SET_GPU_PGTABLE, address_space=SPACE),
        write("job.IRQ_MASK", 0x70007),
        mapped(VA + 8, 0, RX, space=SPACE),
        action(Op.REPLAY_START),
        action(Op.JOB),
        action(Op.COPY_FROM_GPU),
    ]
    sizes = {"carveout_bytes": CARVEOUT_PAGES * PAGE, "va_bytes": 1 << GPU.mmu["va_bits"]}
    return Trace(MALI, array_of(rows_), IMAGE, slots=[slot()], meta={"name": "small", "core_mask": 0xFF}, **sizes)


def forbidden(name: str, to: str, value: int, mask: int = ALL_BITS) -> Row:
    """A row that writes what the policy does not allow."""
    return at(name, "REGISTER", PolicyError, REG, arg=GPU.register(to).index, value=value, a=mask)


def executable(name: str, frame: int, pages: int = 1, flags: int = RX, raw: bool = False) -> Row:
    """A row that makes something into code."""

    def edit(parts: Parts) -> Parts:
        parts.header("flags", HEADER_FLAG_RAW if raw else 0)
        return parts.action(CODE, b=frame, value=pages, flags=flags)

    by_parser = frame >= CARVEOUT_PAGES or (frame == 0 and flags == RWX)  # wrong on any GPU
    return name, edit, "RANGE", RANGE if by_parser else PolicyError


CLEARS = [
    ("mmu.IRQ_CLEAR", (0, 7, 16, 23)),
    ("job.IRQ_CLEAR", (16, 17, 18, 31)),
    ("gpu.IRQ_CLEAR", (0, 7)),
]
ROWS = rows(
    [
        *(
            forbidden(f"a fault cleared: {name}, bit {bit}", name, 1 << bit)
            for name, bits in CLEARS
            for bit in bits
        ),
        forbidden("all of a job's interrupts cleared", "job.IRQ_CLEAR", ALL_BITS),
        forbidden("a hard reset", "gpu.COMMAND", 2),
        forbidden("the CPUs' caches snooped (ACE-Lite)", "gpu.COHERENCY_ENABLE", 0),
        forbidden("the CPUs' caches snooped (ACE)", "gpu.COHERENCY_ENABLE", 1),
        forbidden("counters cleared", "gpu.COMMAND", 3),
        forbidden("counters sampled", "gpu.COMMAND", 4),
        forbidden("the cycle counter", "gpu.COMMAND", 5),
        forbidden("protected mode", "gpu.COMMAND", 9),
        forbidden("counters written to memory", "gpu.PERFCNT_CFG", 1),
        forbidden("counters of shaders", "gpu.PERFCNT_SHADER_EN", ALL_BITS),
        forbidden("a job stopped softly", "js1.COMMAND", 2),
        forbidden("a job stopped hard", "js1.COMMAND_NEXT", 3),
        forbidden("a job in a ninth address space", "js1.CONFIG_NEXT", 0x87B08),
        forbidden("a table of its own", "as0.TRANSTAB_LO", 0),
        forbidden("the upper half of a table of its own", "as3.TRANSTAB_HI", 0),
        forbidden("the table of the last space", "as7.TRANSTAB_LO", 0),
        forbidden("translation switched", "as0.TRANSCFG_LO", 1),
        forbidden("translation switched, upper half", "as3.TRANSCFG_HI", 0),
        forbidden("other attributes of memory", "as0.MEMATTR_LO", 0),
        forbidden("a command that address spaces do not have", "as0.COMMAND", 8),
        forbidden("a masked write of what cannot be read", "as0.COMMAND", 1, 1),
        forbidden("an identity", "gpu.GPU_ID", 0),
        forbidden("the state of a job", "js1.STATUS", 8),
        forbidden("a fault's state", "as0.FAULTSTATUS", 0),
        at(
            "a ninth address space's command",
            "REGISTER",
            PolicyError,
            REG,
            arg=GPU.register("as0.COMMAND").index + 8 * 16,
        ),
        access("a kept value as a table", Op.REG_WRITE_KEPT, GPU.register("as0.TRANSTAB_LO").index),
        access("a read of what can only be written", Op.REG_READ_ONCE, GPU.register("as0.COMMAND").index),
        executable("code in working memory", MEMORY_PAGE),
        executable("code across the image's end", 0, pages=2),
        executable("code that can be written", MEMORY_PAGE, flags=RWX),
        executable("code in the image that can be written", 0, flags=RWX),
        executable("code where the page tables lie", CARVEOUT_PAGES),
        executable("code in working memory of a raw recording", MEMORY_PAGE, raw=True),
        at("the image, writable", "RANGE", RANGE, MAP, b=0),
        at("map into a ninth address space", "RANGE", RANGE, MAP, arg=SPACES | VA >> 32 << 4),
        at("map into the last address space there could be", "RANGE", RANGE, MAP, arg=15),
        at("the table of a ninth address space", "RANGE", RANGE, TABLE, arg=SPACES),
        at("the table of an address space with other bits", "RANGE", RANGE, TABLE, arg=0xFFF0 | SPACE),
        at("map beyond 48 bits", "RANGE", RANGE, MAP, arg=0x1000 | SPACE),
        at("map across 48 bits", "RANGE", RANGE, MAP, arg=0xF0 | SPACE, a=0xFFFFFFFF, value=2),
        at("map the page tables", "RANGE", RANGE, MAP, b=CARVEOUT_PAGES),
        at("a fourth interrupt line", "RANGE", RANGE, REG, op=Op.WAIT_IRQ, arg=LINES, value=9, a=0),
        (
            "a slot in a ninth address space",
            lambda p: p.slot(0, "address_space", SPACES),
            "SLOTS",
            errors.SlotError,
        ),
        ("a slot in one far away", lambda p: p.slot(0, "address_space", 0x103), "SLOTS", errors.SlotError),
        ("a slot beyond 48 bits", lambda p: p.slot(0, "address", 1 << 48), "SLOTS", errors.SlotError),
        (
            "a slot of more than 4 GiB",
            lambda p: p.slot(0, "address", 0).slot(0, "dims", (1 << 30) + 1),
            "SLOTS",
            errors.SlotError,
        ),
        field("more cores than there are", "core_mask", 0x1FF, "IDENTITY", OF_THE_DEVICE),
        field("a core far away", "core_mask", 1 << 63, "IDENTITY", OF_THE_DEVICE),
        field("another revision", "revision_min", 0xFFFF, "IDENTITY", OF_THE_DEVICE),
        field("a V3D's trace", "gpu", 1, "TARGET", errors.OtherPolicyError),
        field("a G52 r1's trace", "gpu", 6, "TARGET", errors.OtherPolicyError),
        field("a V3D's policy", "profile_id", s.GPU.profile_id, "PROFILE", errors.OtherPolicyError),
        field("virtual pages beyond the MMU", "va_bytes", (1 << 48) + PAGE, "MANIFEST", errors.ManifestError),
    ],
    good,
    MALI,
)
