# SPDX-License-Identifier: BSD-2-Clause
"""What a decoder computes, in NumPy with float32: what a recording is compared with before it is written.

A tensor becomes float32 only while it is used, because all of them would need eight times the file's memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.gguf.model import Model

Vector = NDArray[np.float32]


class Reference:
    """A decoder with its caches; a call is a token.

    Args:
        model: the decoder.
        position: where the text begins: before it, keys and values are zero.
    """

    def __init__(self, model: Model, position: int = 0) -> None:
        size = model.size
        self.model = model
        self.position = position
        shape = (size.layers, size.groups, position, size.head)
        self.keys, self.values = np.zeros(shape, np.float32), np.zeros(shape, np.float32)

    def __call__(self, token: int) -> Vector:
        """The logits after a token."""
        m, size = self.model, self.model.size
        x: Vector = m.floats("token_embd.weight")[token]
        kept: list[tuple[Vector, Vector]] = []
        for layer in range(size.layers):
            of = f"blk.{layer}."
            q, k, v = self._heads(layer, self._norm(x, f"{of}attn_norm.weight"))
            keys = np.concatenate([self.keys[layer], k[:, None]], 1)
            values = np.concatenate([self.values[layer], v[:, None]], 1)
            kept.append((keys, values))
            queries = q.reshape(size.groups, -1, size.head)
            scores = queries @ keys.transpose(0, 2, 1) / np.float32(np.sqrt(size.head))
            likely = np.exp(scores - scores.max(-1, keepdims=True))
            mixed = likely / likely.sum(-1, keepdims=True) @ values
            x = x + m.floats(f"{of}attn_output.weight") @ mixed.reshape(-1)
            a = self._norm(x, f"{of}ffn_norm.weight")
            gate = m.floats(f"{of}ffn_gate.weight") @ a
            both = gate / (1 + np.exp(-gate)) * (m.floats(f"{of}ffn_up.weight") @ a)
            x = x + m.floats(f"{of}ffn_down.weight") @ both
        self.keys, self.values = (np.stack([pair[at] for pair in kept]) for at in (0, 1))
        self.position += 1
        logits: Vector = m.floats(m.output) @ self._norm(x, "output_norm.weight")
        return logits

    def _norm(self, x: Vector, gain: str) -> Vector:
        mean = (x * x).mean(dtype=np.float32) + np.float32(self.model.size.epsilon)
        found: Vector = x / np.sqrt(mean) * self.model.floats(gain)
        return found

    def _heads(self, layer: int, a: Vector) -> tuple[Vector, Vector, Vector]:
        """Queries and keys, turned, and values: (heads, size of a head) each."""
        model, found = self.model, []
        for name in ("attn_q", "attn_k", "attn_v"):
            flat = model.floats(f"blk.{layer}.{name}.weight") @ a
            if model.architecture.biased:
                flat = flat + model.floats(f"blk.{layer}.{name}.bias")
            found.append(flat.reshape(-1, model.size.head))
        return self._turned(found[0]), self._turned(found[1]), found[2]

    def _turned(self, heads: Vector) -> Vector:
        angle = self.position * self.model.frequencies
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        half = self.model.size.head // 2
        parts = (
            (slice(0, half), slice(half, None))
            if self.model.architecture.apart
            else (slice(0, None, 2), slice(1, None, 2))
        )
        one, two = (heads[:, part] for part in parts)
        found = np.empty_like(heads)
        found[:, parts[0]], found[:, parts[1]] = one * cos - two * sin, one * sin + two * cos
        return found
