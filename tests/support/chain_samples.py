# SPDX-License-Identifier: BSD-2-Clause
"""The sample of a job chain that tests share: a compute job and all that it names, in one page."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from tests.support.mali_chains import RX, Area, compute, page, renderer_state, thread_storage, uniform_table

NULL, FLUSH, DRAW = 1, 3, 7  # types of jobs
# Where in the page the parts are; the job is at its beginning.
STATE, TABLE, UNIFORMS, PUSH, STORAGE = 0x400, 0x600, 0x640, 0x680, 0x700


def pointers(*addresses: int) -> bytes:
    """Words of 64 bits."""
    return struct.pack(f"<{len(addresses)}Q", *addresses)


def job_page(
    at: int,
    shader: int,
    *,
    buffers: Sequence[tuple[int, int]] = (),
    pushed: bytes = b"",
    storage: bytes = b"",
    next_va: int = 0,
    others: Mapping[int, bytes] | None = None,
) -> bytes:
    """The page at the address `at`: a compute job names those parts that there are.

    Args:
        shader: its address.
        buffers: uniform buffers (address, bytes); their content is in `others`.
        pushed: push uniforms, whole words of 64 bits.
        storage: thread storage, 32 bytes.
        next_va: the job after this one.
        others: by offset; in the place of a part that is named above, too.
    """
    job = compute(
        at + STATE,
        uniforms=at + TABLE if buffers else 0,
        push=at + PUSH if pushed else 0,
        storage=at + STORAGE if storage else 0,
        next_va=next_va,
    )
    state = renderer_state(shader, buffers=len(buffers), push=len(pushed) // 8)
    parts = {0: job, STATE: state, TABLE: uniform_table(*buffers), PUSH: pushed, STORAGE: storage}
    return page(parts | dict(others or {}))


# The same job at JOBS with one of everything, and addresses for more.
CODE, JOBS, DATA, MORE, LAST = (0xFFFF80000000 + i * 0x100000 for i in range(5))
PLACES = {"job": 0, "state": STATE, "table": TABLE, "uniforms": UNIFORMS, "push": PUSH, "storage": STORAGE}


def jobs(**parts: bytes) -> bytes:
    """A page with a compute job at its beginning that has one of everything; parts by name replace its own."""
    others = {PLACES[name]: part for name, part in parts.items()}
    return job_page(
        JOBS, CODE, buffers=[(JOBS + UNIFORMS, 32)], pushed=bytes(16), storage=thread_storage(), others=others
    )


def areas(content: bytes, *others: Area) -> list[Area]:
    return [Area(CODE, 2, RX, b"code"), Area(JOBS, data=content), *others]
