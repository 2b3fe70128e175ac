# SPDX-License-Identifier: BSD-2-Clause
"""A decoder of text in NumPy: a transformer's forward and backward pass over whole texts, to train it.

Each layer is RMS norm, attention of several heads to what came before, RMS norm, and two dense layers with ReLU,
with sums around both (Vaswani et al., 2017, with the norms in front); positions are learned; the table of tokens
is also the last layer's. `export.py` writes the same as an ONNX network that makes one token a run.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]  # float32 to train; float64 when the gradients are checked
Parameters = dict[str, Array]
EPSILON = 1e-5  # of a norm


@dataclass(frozen=True)
class Size:
    """Of a decoder: tokens that it knows, positions of a text, layers, heads, values of a position."""

    tokens: int = 512
    positions: int = 288
    layers: int = 4
    heads: int = 4
    width: int = 128

    @property
    def hidden(self) -> int:
        """Values between a layer's two dense ones."""
        return 4 * self.width


def initial(size: Size, random: np.random.Generator) -> Parameters:
    """Small normal weights, gains of 1; what adds to the sum begins smaller, as GPT-2 has it. float32."""
    width, added = size.width, 0.08 / np.sqrt(2 * size.layers)
    scales: dict[str, tuple[tuple[int, ...], float]] = {
        "tokens": ((size.tokens, width), 0.08),
        "positions": ((size.positions, width), 0.02),
    }
    for layer in range(size.layers):
        scales |= {f"{layer}.{name}": ((width, width), 0.08) for name in ("query", "key", "value")}
        scales |= {
            f"{layer}.out": ((width, width), added),
            f"{layer}.up": ((width, size.hidden), 0.08),
            f"{layer}.down": ((size.hidden, width), added),
        }
    found = {name: random.normal(0, scale, shape).astype(np.float32) for name, (shape, scale) in scales.items()}
    gains = [f"{layer}.{name}" for layer in range(size.layers) for name in ("attention gain", "dense gain")]
    return found | {name: np.ones(width, np.float32) for name in [*gains, "gain"]}


def forward(p: Parameters, size: Size, tokens: Array) -> tuple[Array, list[Any]]:
    """Logits of the next token at each place.

    Args:
        p: the parameters.
        size: of the decoder.
        tokens: (n, length), at most `size.positions` long.

    Returns:
        (n, length, size.tokens), and what `backward` needs.
    """
    n, length = tokens.shape
    x = p["tokens"][tokens] + p["positions"][:length]
    hidden = np.triu(np.full((length, length), -np.inf, x.dtype), 1)
    kept: list[Any] = []
    for layer in range(size.layers):
        a, inverse = _norm(x, p[f"{layer}.attention gain"])
        q, k, v = (_heads(a @ p[f"{layer}.{name}"], size) for name in ("query", "key", "value"))
        weights = softmax(q @ k.swapaxes(2, 3) / np.sqrt(size.width // size.heads, dtype=x.dtype) + hidden)
        mixed = (weights @ v).swapaxes(1, 2).reshape(n, length, size.width)
        middle = x + mixed @ p[f"{layer}.out"]
        b, inverse2 = _norm(middle, p[f"{layer}.dense gain"])
        up = np.maximum(b @ p[f"{layer}.up"], 0)
        kept.append((x, inverse, a, q, k, v, weights, mixed, middle, inverse2, b, up))
        x = middle + up @ p[f"{layer}.down"]
    last, inverse = _norm(x, p["gain"])
    kept.append((x, inverse, last))
    return last @ p["tokens"].T, kept


def backward(p: Parameters, size: Size, tokens: Array, kept: list[Any], d: Array) -> Parameters:
    """Gradients of the parameters, `d` being that of the logits; the others as for `forward`."""
    n, length = tokens.shape
    g: Parameters = {}
    x, inverse, last = kept[-1]
    g["tokens"] = np.tensordot(d, last, ((0, 1), (0, 1)))
    d, g["gain"] = _norm_gradient(x, inverse, p["gain"], d @ p["tokens"])
    for layer in reversed(range(size.layers)):
        x, inverse, a, q, k, v, weights, mixed, middle, inverse2, b, up = kept[layer]
        g[f"{layer}.down"] = _outer(up, d)
        du = d @ p[f"{layer}.down"].T * (up > 0)
        g[f"{layer}.up"] = _outer(b, du)
        added, g[f"{layer}.dense gain"] = _norm_gradient(
            middle, inverse2, p[f"{layer}.dense gain"], du @ p[f"{layer}.up"].T
        )
        d = d + added
        g[f"{layer}.out"] = _outer(mixed, d)
        dm = _heads(d @ p[f"{layer}.out"].T, size)
        dw = dm @ v.swapaxes(2, 3)
        ds = weights * (dw - (dw * weights).sum(3, keepdims=True))
        ds /= np.sqrt(size.width // size.heads, dtype=ds.dtype)
        parts = {"query": ds @ k, "key": ds.swapaxes(2, 3) @ q, "value": weights.swapaxes(2, 3) @ dm}
        da = np.zeros_like(d)
        for name, part in parts.items():
            flat = part.swapaxes(1, 2).reshape(n, length, size.width)
            g[f"{layer}.{name}"] = _outer(a, flat)
            da += flat @ p[f"{layer}.{name}"].T
        added, g[f"{layer}.attention gain"] = _norm_gradient(x, inverse, p[f"{layer}.attention gain"], da)
        d = d + added
    g["positions"] = np.zeros_like(p["positions"])
    g["positions"][:length] = d.sum(0)
    np.add.at(g["tokens"], tokens, d)
    return g


def loss(logits: Array, targets: Array) -> tuple[float, Array]:
    """Mean cross-entropy in nats, and its gradient with respect to the logits.

    Args:
        logits: (n, length, tokens).
        targets: (n, length), the tokens that come next.
    """
    probability = softmax(logits)
    at = np.take_along_axis(probability, targets[..., None], 2)
    mean = float(-np.log(at + 1e-12).mean())
    np.put_along_axis(probability, targets[..., None], at - 1, 2)
    return mean, probability / targets.size


def softmax(x: Array) -> Array:
    """Probabilities along the last axis."""
    e: Array = np.exp(x - x.max(-1, keepdims=True))
    e /= e.sum(-1, keepdims=True)
    return e


def _norm(x: Array, gain: Array) -> tuple[Array, Array]:
    inverse = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(EPSILON))
    return x * inverse * gain, inverse


def _norm_gradient(x: Array, inverse: Array, gain: Array, d: Array) -> tuple[Array, Array]:
    scaled = d * gain
    dx = inverse * (scaled - x * inverse * inverse * (scaled * x).mean(-1, keepdims=True))
    return dx, (d * x * inverse).sum((0, 1))


def _heads(x: Array, size: Size) -> Array:
    n, length, width = x.shape
    return x.reshape(n, length, size.heads, width // size.heads).swapaxes(1, 2)


def _outer(a: Array, b: Array) -> Array:
    """Sum over all places of the products of two vectors: a dense layer's gradient."""
    product: Array = a.reshape(-1, a.shape[-1]).T @ b.reshape(-1, b.shape[-1])
    return product
