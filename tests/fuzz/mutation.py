# SPDX-License-Identifier: BSD-2-Clause
"""Plain mutation, for where there is no Atheris: bytes, numbers and stretches changed, lost, doubled, joined."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

NUMBERS = (
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    (1 << 63) - 1,
    (1 << 64) - 1,
)


def inputs(samples: Sequence[bytes], seed: int) -> Iterator[bytes]:
    """Endlessly: the samples, then changed ones; the same ones for a seed."""
    yield from samples
    rng = random.Random(seed)
    while True:
        data = bytearray(rng.choice(samples))
        for _ in range(rng.choice((1, 1, 2, 4, 8))):
            at = rng.randrange(len(data) + 1)
            match rng.randrange(6):
                case 0:
                    data[at : at + 1] = rng.randbytes(1)
                case 1:
                    size = rng.choice((1, 2, 4, 8))
                    data[at : at + size] = (rng.choice(NUMBERS) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
                case 2:
                    del data[at : at + rng.randrange(1, 64)]
                case 3:
                    data[at:at] = data[at : at + rng.randrange(1, 64)]
                case 4:
                    data[at:at] = rng.randbytes(8)
                case _:
                    other = rng.choice(samples)
                    data[at:] = other[min(at, len(other)) :]
        yield bytes(data)
