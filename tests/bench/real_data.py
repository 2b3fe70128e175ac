# SPDX-License-Identifier: BSD-2-Clause
"""Inputs that trained networks know what to make of: a picture with digits on it, a voice, bytes of a file.

Each is made by NumPy alone, the same every time, and differs by its seed: one is recorded, another replayed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
TEXTS = ("20261125", "31415926", "27182818")  # of the seeds 0, 1, 2
# Digits of 5 x 7 dots, a row of dots a number, the leftmost dot its highest bit.
GLYPHS = (
    (14, 17, 19, 21, 25, 17, 14),
    (4, 12, 4, 4, 4, 4, 14),
    (14, 17, 1, 6, 8, 16, 31),
    (31, 1, 2, 6, 1, 17, 14),
    (2, 6, 10, 18, 31, 2, 2),
    (31, 16, 30, 1, 1, 17, 14),
    (6, 8, 16, 30, 17, 17, 14),
    (31, 1, 2, 4, 8, 8, 8),
    (14, 17, 17, 14, 17, 17, 14),
    (14, 17, 17, 15, 1, 2, 12),
)
RATE = 16000  # samples a second


def picture(shape: tuple[int, ...], seed: int) -> Float32:
    """Dark digits on light paper, from -1 (black) to 1 (white).

    Args:
        shape: batch, channels, height, width.
        seed: which digits.
    """
    *_, height, width = shape
    paper = np.linspace(0.95, 0.75, width, dtype=np.float32) * np.ones((height, 1), np.float32)
    word = np.concatenate([_digit(int(digit)) for digit in TEXTS[seed]], axis=1)
    dot = max(min((height - 4) // word.shape[0], (width - 4) // word.shape[1]), 1)
    ink = _smooth(np.kron(word, np.ones((dot, dot), np.float32)))[: height - 2, : width - 2]
    top, left = (height - ink.shape[0]) // 2, (width - ink.shape[1]) // 2
    paper[top : top + ink.shape[0], left : left + ink.shape[1]] -= 1.6 * ink
    return np.array(np.broadcast_to(paper, shape), np.float32)


def _digit(digit: int) -> Float32:
    dots = [[row >> 4 - column & 1 for column in range(5)] + [0] for row in GLYPHS[digit]]
    return np.array(dots, np.float32)


def _smooth(ink: Float32) -> Float32:
    """Round edges: the mean of a dot and its neighbours."""
    padded = np.pad(ink, 1)
    parts = [
        padded[y : y + ink.shape[0], x : x + ink.shape[1]]
        for y, x in ((0, 1), (1, 0), (1, 1), (1, 1), (1, 2), (2, 1))
    ]
    return np.array(np.mean(parts, axis=0), np.float32)


def voice(shape: tuple[int, ...], seed: int) -> Float32:
    """A sung vowel of 16,000 samples a second: harmonics of a low tone that sways, two formants, a little breath.

    Args:
        shape: the last dimension is time, unless it is 1, for channels.
        seed: pitch and breath.
    """
    generator = np.random.default_rng(seed)
    time = np.arange(int(np.prod(shape))) / RATE
    pitch = 120 + 25 * seed
    phase = 2 * np.pi * pitch * (time + 0.002 * np.sin(2 * np.pi * 5 * time))
    sound = generator.normal(0, 0.005, time.shape)
    for harmonic in range(1, 25):
        frequency = harmonic * pitch
        strength = sum(1 / (1 + ((frequency - formant) / 120) ** 2) for formant in (700, 1200)) + 0.05
        sound += 0.1 * strength * np.sin(harmonic * phase)
    return np.clip(sound, -1, 1).reshape(shape).astype(np.float32)


def file_bytes(path: Path, seed: int) -> NDArray[np.int32]:
    """Beginning and end of a text file as Magika takes them: 1,024 bytes each, without white space around, 256 for
    what lies beyond the file. Seeds begin at different lines.

    Source: magika/magika.py of the package, `_extract_features_from_seekable`.
    """
    lines = path.read_bytes().split(b"\n")
    text = b"\n".join(lines[seed * 10 :]).strip()
    first, last = np.full((2, 1024), 256, np.int32)
    begin, end = (np.frombuffer(part, np.uint8) for part in (text[:1024], text[-1024:]))
    first[: begin.size] = begin
    last[1024 - end.size :] = end
    return np.concatenate([first, last])[None]
