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
    """A decoder with its caches; a call is a token, or several.

    Args:
        model: the decoder.
        position: where the text begins: before it, keys and values are zero.
        before: tokens at the first positions all the same, fewer than `position` or as many; None: none.
    """

    def __init__(self, model: Model, position: int = 0, before: Reference | None = None) -> None:
        size = model.size
        self.model = model
        self.position = position
        shape = (size.layers, size.groups, position, size.head)
        self.keys, self.values = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        if before is not None:
            self.keys[:, :, : before.position] = before.keys
            self.values[:, :, : before.position] = before.values

    def __call__(self, *tokens: int) -> Vector:
        """The logits after the last token; the weights become floats once for all of them."""
        m, size = self.model, self.model.size
        x: Vector = m.floats("token_embd.weight")[list(tokens)]
        kept: list[tuple[Vector, Vector]] = []
        after = np.triu(np.full((len(tokens),) * 2, -np.inf, np.float32), 1)
        hidden = np.concatenate([np.zeros((len(tokens), self.position), np.float32), after], 1)
        for layer in range(size.layers):
            of = f"blk.{layer}."
            q, k, v = self._heads(layer, self._norm(x, f"{of}attn_norm.weight"))
            keys = np.concatenate([self.keys[layer], k], 1)
            values = np.concatenate([self.values[layer], v], 1)
            kept.append((keys, values))
            queries = q.reshape(size.groups, -1, len(tokens), size.head)
            scores = queries @ keys[:, None].transpose(0, 1, 3, 2) / np.float32(np.sqrt(size.head)) + hidden
            likely = np.exp(scores - scores.max(-1, keepdims=True))
            mixed = (likely / likely.sum(-1, keepdims=True) @ values[:, None]).reshape(-1, *queries.shape[2:])
            x = x + mixed.swapaxes(0, 1).reshape(len(tokens), -1) @ m.floats(f"{of}attn_output.weight").T
            a = self._norm(x, f"{of}ffn_norm.weight")
            gate = a @ m.floats(f"{of}ffn_gate.weight").T
            both = gate / (1 + np.exp(-gate)) * (a @ m.floats(f"{of}ffn_up.weight").T)
            x = x + both @ m.floats(f"{of}ffn_down.weight").T
        self.keys, self.values = (np.stack([pair[at] for pair in kept]) for at in (0, 1))
        self.position += len(tokens)
        logits: Vector = m.floats(m.output) @ self._norm(x[-1:], "output_norm.weight")[0]
        return logits

    def _norm(self, x: Vector, gain: str) -> Vector:
        mean = (x * x).mean(-1, keepdims=True, dtype=np.float32) + np.float32(self.model.size.epsilon)
        found: Vector = x / np.sqrt(mean) * self.model.floats(gain)
        return found

    def _heads(self, layer: int, a: Vector) -> tuple[Vector, Vector, Vector]:
        """Queries and keys, turned, and values: (heads, tokens, size of a head) each."""
        model, found = self.model, []
        for name in ("attn_q", "attn_k", "attn_v"):
            flat = a @ model.floats(f"blk.{layer}.{name}.weight").T
            if model.architecture.biased:
                flat = flat + model.floats(f"blk.{layer}.{name}.bias")
            heads = flat.reshape(len(a), -1, model.size.head).swapaxes(0, 1)
            if model.architecture.normed and name != "attn_v":
                heads = self._norm(heads, f"blk.{layer}.{name}_norm.weight")
            found.append(heads)
        return self._turned(found[0]), self._turned(found[1]), found[2]

    def _turned(self, heads: Vector) -> Vector:
        angle = (self.position + np.arange(heads.shape[1]))[:, None] * self.model.frequencies
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        half = self.model.size.head // 2
        parts = (
            (slice(0, half), slice(half, None))
            if self.model.architecture.apart
            else (slice(0, None, 2), slice(1, None, 2))
        )
        one, two = (heads[..., part] for part in parts)
        found = np.empty_like(heads)
        found[..., parts[0]], found[..., parts[1]] = one * cos - two * sin, one * sin + two * cos
        return found
