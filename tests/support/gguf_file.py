# SPDX-License-Identifier: BSD-2-Clause
"""GGUF files as tests write them, from ggml's docs/gguf.md, and blocks of random weights."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = {
    "F32": 0,
    "F16": 1,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q5_0": 6,
    "Q5_1": 7,
    "Q8_0": 8,
    "Q4_K": 12,
    "Q5_K": 13,
    "Q6_K": 14,
}
# Bytes of a block before (or after, below zero) its numbers that are halves, and the block: elements, bytes.
HALVES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
}
BLOCKS = {"Q4_0": (32, 18), "Q4_1": (32, 20), "Q8_0": (32, 34), "Q4_K": (256, 144), "Q5_K": (256, 176)}
BLOCKS |= {"Q5_0": (32, 22), "Q5_1": (32, 24), "Q6_K": (256, 210)}


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(found: Any) -> bytes:
    """A key's type and value: truth, whole number, float, text, or a list of these."""
    if isinstance(found, bool):
        return struct.pack("<I?", 7, found)
    if isinstance(found, int):
        return struct.pack("<Ii", 5, found)
    if isinstance(found, float):
        return struct.pack("<If", 6, found)
    if isinstance(found, str):
        return struct.pack("<I", 8) + text(found)
    kind = value(found[0])[:4] if found else struct.pack("<I", 5)
    return struct.pack("<I", 9) + kind + struct.pack("<Q", len(found)) + b"".join(value(one)[4:] for one in found)


def written(
    values: dict[str, Any], tensors: dict[str, tuple[str, tuple[int, ...], bytes]], alignment: int = 32
) -> bytes:
    """A file.

    Args:
        values: by key.
        tensors: by name: kind of `KINDS`, shape (slowest first), data.
        alignment: of the tensors' data, in bytes.
    """
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(values))]
    parts += [text(key) + value(found) for key, found in values.items()]
    data = bytearray()
    for name, (kind, shape, raw) in tensors.items():
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
        parts.append(text(name) + sizes + struct.pack("<IQ", KINDS[kind], len(data)))
        data += raw + bytes(-len(raw) % alignment)
    head = b"".join(parts)
    return head + bytes(-len(head) % alignment) + data


def random_blocks(kind: str, rows: int, columns: int, random: np.random.Generator, scale: float = 1.0) -> bytes:
    """Weights of random numbers and small halves; for F32 and F16, normal ones of about this scale."""
    if kind in ("F32", "F16"):
        dtype = "<f4" if kind == "F32" else "<f2"
        return random.normal(0, scale, (rows, columns)).astype(dtype).tobytes()
    block, size = BLOCKS[kind]
    raw = random.integers(0, 256, (rows, columns // block, size), np.uint8)
    for place in HALVES[kind]:
        halves: NDArray[Any] = random.uniform(-1, 1, raw.shape[:2]) * scale / LARGEST[kind]
        if kind in MIDDLE and place == 2:
            halves = -MIDDLE[kind] * raw[..., :2].copy().view("<f2")[..., 0].astype(np.float32)
        raw[..., place : place + 2] = halves.astype("<f2")[..., None].view(np.uint8)
    return raw.tobytes()


MIDDLE = {"Q4_1": 7.5, "Q5_1": 15.5}  # of the numbers
LARGEST = {
    "Q4_0": 8,
    "Q4_1": 8,
    "Q5_0": 16,
    "Q5_1": 16,
    "Q8_0": 127,
    "Q4_K": 500,
    "Q5_K": 1000,
    "Q6_K": 2000,
}  # about, of a weight


def weights(kind: str, raw: bytes) -> NDArray[np.float32]:
    """Weights one after the other, by ggml's own loops (ggml-quants.c: dequantize_row_*), one number at a time."""
    if kind in ("F32", "F16"):
        return np.frombuffer(raw, "<f4" if kind == "F32" else "<f2").astype(np.float32)
    size = BLOCKS[kind][1]
    found = [one for at in range(0, len(raw), size) for one in LOOPS[kind](raw[at : at + size])]
    return np.array(found, np.float32)


def _half(raw: bytes, at: int) -> np.float32:
    return np.float32(struct.unpack_from("<e", raw, at)[0])


def _q4_0(b: bytes) -> list[np.float32]:
    d = _half(b, 0)
    return [d * np.float32((b[2 + j % 16] >> 4 * (j // 16) & 15) - 8) for j in range(32)]


def _q4_1(b: bytes) -> list[np.float32]:
    d, m = _half(b, 0), _half(b, 2)
    return [d * np.float32(b[4 + j % 16] >> 4 * (j // 16) & 15) + m for j in range(32)]


def _fifth(b: bytes, at: int, j: int) -> int:
    """The high bit of column `j`, of qh at `at`."""
    return (b[at + j // 8] >> j % 8 & 1) << 4


def _q5_0(b: bytes) -> list[np.float32]:
    d = _half(b, 0)
    return [d * np.float32((b[6 + j % 16] >> 4 * (j // 16) & 15 | _fifth(b, 2, j)) - 16) for j in range(32)]


def _q5_1(b: bytes) -> list[np.float32]:
    d, m = _half(b, 0), _half(b, 2)
    return [d * np.float32(b[8 + j % 16] >> 4 * (j // 16) & 15 | _fifth(b, 4, j)) + m for j in range(32)]


def _q8_0(b: bytes) -> list[np.float32]:
    d = _half(b, 0)
    return [d * np.float32(struct.unpack_from("b", b, 2 + j)[0]) for j in range(32)]


def _six(b: bytes, j: int) -> tuple[int, int]:
    """get_scale_min_k4."""
    q = b[4:16]
    if j < 4:
        return q[j] & 63, q[j + 4] & 63
    return q[j + 4] & 15 | q[j - 4] >> 6 << 4, q[j + 4] >> 4 | q[j] >> 6 << 4


def _fours(b: bytes, start: int, fifth: bytes) -> list[np.float32]:
    d, least = _half(b, 0), _half(b, 2)
    found = []
    for j in range(256):
        group, byte = j // 32, b[start + j // 64 * 32 + j % 32]
        number = byte >> 4 * (group % 2) & 15
        if fifth:
            number |= (fifth[j % 32] >> group & 1) << 4
        scale, m = _six(b, group)
        found.append(d * np.float32(scale) * np.float32(number) - least * np.float32(m))
    return found


def _q6_k(b: bytes) -> list[np.float32]:
    d = _half(b, 208)
    found = []
    for j in range(256):
        half, quarter, column = j // 128, j % 128 // 32, j % 32
        low = b[64 * half + column + 32 * (quarter % 2)] >> 4 * (quarter // 2) & 15
        high = b[128 + 32 * half + column] >> 2 * quarter & 3
        scale = struct.unpack_from("b", b, 192 + j // 16)[0]
        found.append(d * np.float32(scale) * np.float32((low | high << 4) - 32))
    return found


LOOPS = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": lambda b: _fours(b, 16, b""),
    "Q5_K": lambda b: _fours(b, 48, b[16:48]),
    "Q6_K": _q6_k,
}


def save(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
