# SPDX-License-Identifier: BSD-2-Clause
"""A virtual Mali that runs programs: job, code, and data in the pages that MaliBoard maps."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.bifrost_asm import one_tuple
from tests.support.mali_model import DATA, PAGE, VA, MaliBoard
from tests.support.mali_samples import job_header

CODE, INPUT, OUTPUT, READ_ONLY = (VA + i * PAGE for i in range(1, 5))
STATE, PUSH, STORAGE, BUFFERS = VA + 0x200, VA + 0x240, VA + 0x380, VA + 0x3C0
THREADS = PAGE // 16  # of INPUT's rows
GLOBAL_IDS = 0x7000
DEFAULT_PRELOAD = GLOBAL_IDS

Words = NDArray[np.uint32]


def invocation(size: Sequence[int], groups: Sequence[int]) -> bytes:
    """An Invocation descriptor: six values less one, each in as many bits as it needs."""
    word, at, starts = 0, 0, []
    for value in (*size, *groups):
        starts.append(at)
        word |= value - 1 << at
        at += (value - 1).bit_length()
    shifts = sum(start << place for start, place in zip(starts[1:], (0, 5, 10, 16, 22), strict=True))
    return struct.pack("<II", word & 0xFFFFFFFF, shifts)


class ShaderBoard(MaliBoard):
    """A MaliBoard that executes shaders. Page 1 is code, 2 input, 3 output."""

    def __init__(self, *, gpu: str = "mali_g71", **options: Any) -> None:
        super().__init__(gpu=gpu, **options)

    def put(self, va: int, data: bytes) -> None:
        """Bytes at a GPU address of the first pages."""
        self.ram.put(DATA + va - VA, data)

    def put_words(self, va: int, words: Words) -> None:
        self.put(va, np.ascontiguousarray(words, np.uint32).tobytes())

    def words(self, va: int, count: int) -> Words:
        at = DATA + va - VA - self.ram.base
        return self.ram.bytes[at : at + 4 * count].view(np.uint32).copy()

    def prepare(
        self,
        code: bytes,
        *,
        size: Sequence[int] = (64, 1, 1),
        groups: Sequence[int] = (1, 1, 1),
        uniforms: Sequence[int] = (INPUT, OUTPUT),
        preload: int = DEFAULT_PRELOAD,
        storage: bytes = b"",
        barrier: bool = False,
        buffers: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Put a job and its program in place; `buffers`: address and units of 16 bytes of each uniform buffer."""
        state = [0] * 16
        state[0], state[1] = CODE & 0xFFFFFFFF, CODE >> 32
        state[4], state[12] = barrier << 11 | len(buffers), preload | len(uniforms) << 15
        draw = bytearray(128)
        struct.pack_into("<QQ", draw, 48, PUSH, STATE)
        struct.pack_into("<Q", draw, 24, BUFFERS)
        struct.pack_into("<Q", draw, 112, STORAGE if storage else 0)
        job = job_header()[:32] + invocation(size, groups) + bytes(24) + bytes(draw)
        self.put(VA, job.ljust(0x200, b"\0"))
        self.put(STATE, struct.pack("<16I", *state))
        self.put(PUSH, struct.pack(f"<{len(uniforms)}Q", *uniforms))
        self.put(STORAGE, storage.ljust(32, b"\0"))
        table = [(va >> 4) << 12 | units - 1 if units else 0 for va, units in buffers]
        self.put(BUFFERS, struct.pack(f"<{len(table)}Q", *table))
        self.put(CODE, code.ljust(PAGE, b"\0"))

    def go(self) -> int:
        """Run the job; its status."""
        self.submit()
        self.write(0x1004, 0xFFFFFFFF)
        return self.status()

    def compute(self, fma: int, add: int, rows: Words) -> Words:
        """Results of an FMA and an ADD operation, for rows of four words.

        Args:
            rows: uint32 (n, 4), n at most THREADS and a multiple of 64.

        Returns:
            uint32 (n, 2).
        """
        self.prepare(one_tuple(fma, add), groups=(len(rows) // 64, 1, 1))
        self.put_words(INPUT, rows)
        status = self.go()
        assert status == 1, hex(status)
        return self.words(OUTPUT, 2 * len(rows)).reshape(-1, 2)
