# SPDX-License-Identifier: BSD-2-Clause
"""Job chains on a Mali G71, put together by hand: descriptors, regions, submissions, and the trace that they make.

Descriptor layouts: Mesa 22.3.6 src/panfrost/lib/genxml/v6.xml.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.support.mali_samples import job_header
from trace_format import profile
from trace_format.actions import ACTION_DTYPE, ALL_BITS, MAP_EXECUTE, MAP_READ, MAP_WRITE, Action, Op, action
from trace_format.slots import Slot
from trace_format.trace import Trace

PAGE = 4096
GPU = profile.load("mali_g71")
RX, RO, RW = MAP_READ | MAP_EXECUTE, MAP_READ, MAP_READ | MAP_WRITE
POLL_US, IRQ_US = 100_000, 5_000_000
FLUSH_ALL = 0x87B00  # JS_CONFIG as Arm's driver writes it


@dataclass
class Area:
    """Memory that is allocated as one. What `data` has none of is unknown."""

    va: int
    pages: int = 1
    flags: int = RW
    data: bytes | None = None
    space: int = 0


@dataclass
class CpuWrite:
    """What the CPU writes between jobs."""

    va: int
    data: bytes


def header(kind: int, next_va: int = 0, index: int = 1) -> bytes:
    """A job header."""
    return job_header(kind=kind, next_va=next_va, index=index)[:32]


def compute(
    state: int,
    *,
    uniforms: int = 0,
    push: int = 0,
    storage: int = 0,
    others: dict[int, int] | None = None,
    next_va: int = 0,
    index: int = 1,
) -> bytes:
    """A compute job of 192 bytes; `others`: further pointers of its draw, by offset there."""
    job = bytearray(header(4, next_va, index).ljust(192, b"\0"))
    for at, va in ({24: uniforms, 48: push, 56: state, 112: storage} | (others or {})).items():
        struct.pack_into("<Q", job, 64 + at, va)
    return bytes(job)


def write_value(va: int, value: int = 0, next_va: int = 0, index: int = 1) -> bytes:
    """A job that writes 64 bits."""
    return header(2, next_va, index) + struct.pack("<QIIQ", va, 7, 0, value)


def renderer_state(shader: int, *, buffers: int = 0, push: int = 0) -> bytes:
    """64 bytes: the shader, how many uniform buffers, how many words of 64 bits are pushed."""
    words = [0] * 16
    words[0], words[1] = shader & ALL_BITS, shader >> 32
    words[4], words[12] = buffers, push << 15
    return struct.pack("<16I", *words)


def uniform_table(*buffers: tuple[int, int]) -> bytes:
    """Buffers (address, bytes), both of 16 bytes each; (0, 0): none."""
    return b"".join(struct.pack("<Q", va >> 4 << 12 | size // 16 - 1 if size else 0) for va, size in buffers)


def thread_storage(stack: int = 0, shared: int = 0) -> bytes:
    """32 bytes: where threads and work groups have their memory."""
    return struct.pack("<QQQQ", 0, stack, shared, 0)


def page(parts: dict[int, bytes], pages: int = 1) -> bytes:
    """Parts by offset, zero between them."""
    content = bytearray(pages * PAGE)
    for at, part in parts.items():
        content[at : at + len(part)] = part
    return bytes(content)


def write(name: str, value: int) -> Action:
    return action(Op.REG_WRITE, register=GPU.register(name).index, value=value, mask=ALL_BITS)


def read(name: str, value: int) -> Action:
    return action(Op.REG_READ_ONCE, register=GPU.register(name).index, expected=value, mask=ALL_BITS)


def wait(name: str, value: int, mask: int = ALL_BITS) -> Action:
    return action(
        Op.REG_READ_WAIT, register=GPU.register(name).index, expected=value, mask=mask, timeout_us=POLL_US
    )


def submit(head: int, *, slot: int = 1, space: int = 0, waits: bool = True) -> list[Action]:
    """Start a chain; wait for its end and clear the interrupt."""
    rows = [
        action(Op.JOB),  # numbered by `trace`
        write(f"js{slot}.HEAD_NEXT_LO", head & ALL_BITS),
        write(f"js{slot}.HEAD_NEXT_HI", head >> 32),
        write(f"js{slot}.AFFINITY_NEXT_LO", 0xFF),
        write(f"js{slot}.AFFINITY_NEXT_HI", 0),
        write(f"js{slot}.CONFIG_NEXT", FLUSH_ALL | space),
        write(f"js{slot}.COMMAND_NEXT", 1),
    ]
    return rows + (served(slot) if waits else [])


def served(slot: int = 1) -> list[Action]:
    """Wait for a chain's end and clear the interrupt."""
    return [
        action(Op.WAIT_IRQ, line=0, timeout_us=IRQ_US),
        read("job.IRQ_STATUS", 1 << slot),
        write("job.IRQ_CLEAR", 1 << slot),
    ]


def power_on() -> list[Action]:
    return [
        write("gpu.COMMAND", 1),
        wait("gpu.IRQ_RAWSTAT", 0x100, 0x100),
        write("gpu.IRQ_CLEAR", 0x100),
        write("job.IRQ_MASK", ALL_BITS),
        write("gpu.L2_PWRON_LO", 1),
        wait("gpu.L2_READY_LO", 1),
        write("gpu.SHADER_PWRON_LO", 0xFF),
        wait("gpu.SHADER_READY_LO", 0xFF),
    ]


def set_table(space: int = 0) -> list[Action]:
    return [action(Op.SET_GPU_PGTABLE, address_space=space), write(f"as{space}.COMMAND", 1)]


def trace(
    areas: Sequence[Area],
    *stream: Action | CpuWrite | Iterable[Action | CpuWrite],
    slots: Sequence[Slot] = (),
    prologue: Sequence[Action] | None = None,
) -> Trace:
    """A raw trace as an importer makes it: contents in the image, areas after it with a free page between them.

    Args:
        areas: all mapped memory.
        stream: what every replay does after filling memory; Job actions are numbered.
        slots: all are copied.
        prologue: after the mappings; power and the page tables of all areas, where none is given.
    """
    image = bytearray()
    areas = sorted(areas, key=lambda area: (area.space, area.va))
    saved = sum(-(-len(area.data or b"") // PAGE) for area in areas)
    cpu_writes = [item for item in _flat(stream) if isinstance(item, CpuWrite)]
    frame = saved + -(-sum(len(item.data) for item in cpu_writes) // PAGE)
    place: dict[int, int] = {}
    maps, fills = [], []
    for area in areas:
        maps.append(
            action(
                Op.MAP_GPU_MEM,
                flags=area.flags,
                pages=area.pages,
                frame=frame,
                address_space=area.space,
                va_page=area.va // PAGE,
            )
        )
        place |= {area.va // PAGE + i: (frame + i) * PAGE for i in range(area.pages)}
        if area.data is not None:
            data = area.data.ljust(-(-len(area.data) // PAGE) * PAGE, b"\0")
            fills.append(action(Op.UPLOAD, bytes=len(data), target=frame * PAGE, source=len(image)))
            image += data
        frame += area.pages + 1
    if prologue is None:
        prologue = power_on()
        for space in sorted({area.space for area in areas}):
            prologue += set_table(space)
    copies = [(Op.COPY_FROM_GPU if s.kind.name == "OUTPUT" else Op.COPY_TO_GPU, i) for i, s in enumerate(slots)]
    rows = [*maps, *prologue, action(Op.REPLAY_START), *fills]
    rows += [action(op, arg=i) for op, i in copies if op == Op.COPY_TO_GPU]
    jobs = 0
    for item in _flat(stream):
        if isinstance(item, CpuWrite):
            to = place[item.va // PAGE] + item.va % PAGE
            rows.append(action(Op.UPLOAD, bytes=len(item.data), target=to, source=len(image)))
            image += item.data
        elif item.op == Op.JOB:
            rows.append(action(Op.JOB, number=jobs))
            jobs += 1
        else:
            rows.append(item)
    rows += [action(op, arg=i) for op, i in copies if op == Op.COPY_FROM_GPU]
    found = Trace(
        "mali_g71",
        np.array(rows, ACTION_DTYPE),
        bytes(image),
        frame * PAGE,
        1 << 48,
        slots=list(slots),
        meta={"name": "chains", "core_mask": 0xFF},
        raw=True,
    )
    found.check()
    return found


def _flat(stream: Iterable[Action | CpuWrite | Iterable[Action | CpuWrite]]) -> list[Action | CpuWrite]:
    found: list[Action | CpuWrite] = []
    for item in stream:
        found += [item] if isinstance(item, (Action, CpuWrite)) else list(item)
    return found
