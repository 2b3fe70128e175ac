# SPDX-License-Identifier: BSD-2-Clause
"""Small decoders with random weights as GGUF files, and what they compute: in float64, all positions at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.gguf_file import random_blocks, save, weights, written

Tensors = dict[str, tuple[str, tuple[int, ...], bytes]]
EPSILON, BASE = 1e-5, 10000.0


@dataclass(frozen=True)
class Decoder:
    """A decoder of llama's, qwen2's or qwen3's kind.

    Attributes:
        kind: of its matrices' elements.
        kinds: of those whose names end so: another kind.
        tied: the table of tokens makes the logits.
        head: elements of a head; 0: the width's share.
    """

    kind: str = "Q4_1"
    architecture: str = "llama"
    kinds: tuple[tuple[str, str], ...] = ()
    layers: int = 2
    width: int = 64
    hidden: int = 128
    heads: int = 4
    groups: int = 2
    tokens: int = 256
    tied: bool = True
    seed: int = 1
    head: int = 0

    @property
    def _head(self) -> int:
        return self.head or self.width // self.heads

    @cached_property
    def tensors(self) -> Tensors:
        """Random ones, by name."""
        random = np.random.default_rng(self.seed)
        found: Tensors = {}
        for name, shape in self._shapes().items():
            if len(shape) == 1:
                near = random.normal(0 if name.endswith("bias") else 1, 0.3, shape).astype("<f4")
                found[name] = ("F32", shape, near.tobytes())
                continue
            kind = next((kind for end, kind in self.kinds if name.endswith(end)), self.kind)
            found[name] = (kind, shape, random_blocks(kind, shape[0], shape[1], random, 3 / np.sqrt(shape[1])))
        return found

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        own, shared, width = self.heads * self._head, self.groups * self._head, self.width
        found: dict[str, tuple[int, ...]] = {
            "token_embd.weight": (self.tokens, width),
            "output_norm.weight": (width,),
        }
        if not self.tied:
            found["output.weight"] = (self.tokens, width)
        for layer in range(self.layers):
            found[f"blk.{layer}.attn_output.weight"] = (width, own)
            for name, rows in (("q", own), ("k", shared), ("v", shared)):
                found[f"blk.{layer}.attn_{name}.weight"] = (rows, width)
                if self.architecture == "qwen2":
                    found[f"blk.{layer}.attn_{name}.bias"] = (rows,)
                elif self.architecture == "qwen3" and name != "v":
                    found[f"blk.{layer}.attn_{name}_norm.weight"] = (self._head,)
            for name in ("gate", "up"):
                found[f"blk.{layer}.ffn_{name}.weight"] = (self.hidden, width)
            found[f"blk.{layer}.ffn_down.weight"] = (width, self.hidden)
            found |= {f"blk.{layer}.{name}_norm.weight": (width,) for name in ("attn", "ffn")}
        return found

    def values(self) -> dict[str, Any]:
        """The file's keys."""
        own = {
            "block_count": self.layers,
            "context_length": 2048,
            "embedding_length": self.width,
            "feed_forward_length": self.hidden,
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.groups,
            "attention.layer_norm_rms_epsilon": EPSILON,
            "rope.freq_base": BASE,
        }
        if self.head:
            own |= {"attention.key_length": self.head, "attention.value_length": self.head}
        named = {f"{self.architecture}.{key}": found for key, found in own.items()}
        return {"general.architecture": self.architecture, "general.name": "tiny", **named}

    def write(self, path: Path, **values: Any) -> Path:
        """The file; `values`: keys that differ, with two underscores for each dot."""
        changed = {key.replace("__", "."): found for key, found in values.items()}
        return save(path, written(self.values() | changed, self.tensors))

    @cached_property
    def _weights(self) -> dict[str, NDArray[np.float64]]:
        return {
            name: weights(kind, raw).reshape(shape).astype(np.float64)
            for name, (kind, shape, raw) in self.tensors.items()
        }

    def logits(self, tokens: list[int]) -> NDArray[np.float64]:
        """After each of these tokens, (tokens, vocabulary)."""
        w, size = self._weights, self._head
        x = w["token_embd.weight"][tokens]
        hidden = np.triu(np.full((len(tokens), len(tokens)), -np.inf), 1)
        for layer in range(self.layers):
            a = _norm(x, w[f"blk.{layer}.attn_norm.weight"])
            q, k, v = (
                (a @ w[f"blk.{layer}.attn_{name}.weight"].T + w.get(f"blk.{layer}.attn_{name}.bias", 0))
                .reshape(len(tokens), -1, size)
                .transpose(1, 0, 2)
                for name in "qkv"
            )
            if self.architecture == "qwen3":
                q, k = (
                    _norm(one, w[f"blk.{layer}.attn_{name}_norm.weight"]) for one, name in ((q, "q"), (k, "k"))
                )
            q, k = self._turned(q), self._turned(k)
            k, v = (np.repeat(part, self.heads // self.groups, 0) for part in (k, v))
            likely = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(size) + hidden)
            mixed = (likely / likely.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(tokens), -1)
            x = x + mixed @ w[f"blk.{layer}.attn_output.weight"].T
            a = _norm(x, w[f"blk.{layer}.ffn_norm.weight"])
            gate, up = (a @ w[f"blk.{layer}.ffn_{name}.weight"].T for name in ("gate", "up"))
            x = x + (gate / (1 + np.exp(-gate)) * up) @ w[f"blk.{layer}.ffn_down.weight"].T
        found: NDArray[np.float64] = _norm(x, w["output_norm.weight"]) @ w[self._output].T
        return found

    @property
    def _output(self) -> str:
        return "token_embd.weight" if self.tied else "output.weight"

    def _turned(self, heads: NDArray[np.float64]) -> NDArray[np.float64]:
        """RoPE, as a product of complex numbers."""
        half = heads.shape[-1] // 2
        angle = np.arange(heads.shape[1])[:, None] * BASE ** (-np.arange(half) / half)
        if self.architecture == "llama":
            pairs = heads[..., 0::2] + 1j * heads[..., 1::2]
        else:
            pairs = heads[..., :half] + 1j * heads[..., half:]
        pairs = pairs * np.exp(1j * angle)
        if self.architecture == "llama":
            return np.stack([pairs.real, pairs.imag], -1).reshape(heads.shape)
        return np.concatenate([pairs.real, pairs.imag], -1)


def _norm(x: NDArray[np.float64], gain: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled: NDArray[np.float64] = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * gain
    return scaled


def words(size: int = 272) -> dict[str, Any]:
    """Keys of a vocabulary: 256 bytes, two of ChatML's tokens, an end of text, and merges of words' beginnings."""
    letters = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    alphabet = [chr(byte if byte in letters else next(others)) for byte in range(256)]
    merges = ["t h", "th e", "Ġ the", "a n", "Ġ a", "u s", "us er", "e r", "1 2", "Ġ Ġ", "Ã ©", "i n", "in g"][
        : size - 259
    ]
    tokens = [
        *alphabet,
        "<|im_start|>",
        "<|im_end|>",
        "<|endoftext|>",
        *(pair.replace(" ", "") for pair in merges),
    ]
    template = (
        "{% for m in messages %}{% if loop.first %}{{ '<|im_start|>system\nBe brief.<|im_end|>\n' }}{% endif %}"
        "{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    )
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * 256 + [3] * 3 + [1] * len(merges),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": 257,
        "tokenizer.chat_template": template,
    }
