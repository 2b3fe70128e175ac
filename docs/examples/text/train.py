# SPDX-License-Identifier: BSD-2-Clause
"""Trains the demo's decoder on a book and writes it as an ONNX network: `make demo-text-train`.

One seed and one BLAS thread: on the same kind of CPU with the same NumPy, the file comes out identical.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from docs.examples.text import DECODER, book, decoder, export
from host_tools.support.files import write_atomically
from trace_format.errors import GramophoneError

SEED = 1
STEPS = 1500
BATCH = 8  # texts a step
RATE = 3e-3  # of the largest step; it rises for WARM_UP steps and falls to a tenth along half a cosine
WARM_UP = 50
DECAY = 0.1  # of weights, a step, times the rate
SAID_EVERY = 50


def train(
    size: decoder.Size, tokens: decoder.Array, starts: decoder.Array, steps: int = STEPS, seed: int = SEED
) -> decoder.Parameters:
    """Train a decoder with AdamW (Loshchilov & Hutter, 2019) on pieces of a text.

    Args:
        size: of the decoder.
        tokens: the text's.
        starts: places at which a piece may begin.
    """
    random = np.random.default_rng(seed)
    parameters = decoder.initial(size, random)
    mean = {name: np.zeros_like(value) for name, value in parameters.items()}
    square = {name: np.zeros_like(value) for name, value in parameters.items()}
    lately = 0.0
    for step in range(1, steps + 1):
        text = np.stack([tokens[at : at + size.positions + 1] for at in random.choice(starts, BATCH)])
        logits, kept = decoder.forward(parameters, size, text[:, :-1])
        loss, d = decoder.loss(logits, text[:, 1:])
        gradient = decoder.backward(parameters, size, text[:, :-1], kept, d)
        lately = loss if step == 1 else 0.95 * lately + 0.05 * loss
        fall = 0.55 + 0.45 * np.cos(np.pi * step / steps)
        rate = np.float32(RATE * min(step / WARM_UP, 1) * fall)
        for name, g in gradient.items():
            mean[name] += np.float32(0.1) * (g - mean[name])
            square[name] += np.float32(0.02) * (g * g - square[name])
            unbiased = mean[name] / np.float32(1 - 0.9**step)
            spread = np.sqrt(square[name] / np.float32(1 - 0.98**step))
            if parameters[name].ndim > 1:
                parameters[name] *= 1 - rate * np.float32(DECAY)
            parameters[name] -= rate * unbiased / (spread + np.float32(1e-8))
        if step % SAID_EVERY == 0:
            print(f"step {step}/{steps}: loss {lately:.3f}", file=sys.stderr, flush=True)
    return parameters


def _starts(numbers: decoder.Array, tokens: list[str], size: decoder.Size) -> decoder.Array:
    """Where paragraphs begin that are followed by enough text."""
    ends = [at for at, token in enumerate(tokens) if token.startswith("\n")]
    first = np.concatenate([[0], np.flatnonzero(np.isin(numbers, ends))])
    return first[first < len(numbers) - size.positions]


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m docs.examples.text.train", description=__doc__)
    parser.add_argument("--out", type=Path, default=DECODER, help="file to write (%(default)s)")
    parser.add_argument("--steps", type=int, default=STEPS, help="of training (%(default)s)")
    options = parser.parse_args()
    begin = time.monotonic()
    size = decoder.Size()
    try:
        text = book.fetch()
        tokens = book.vocabulary(text, size.tokens)
        numbers = np.array(book.encode(text, tokens))
        print(f"{len(text)} characters, {len(numbers)} tokens", file=sys.stderr)
        with threadpool_limits(1):
            parameters = train(size, numbers, _starts(numbers, tokens, size), options.steps)
        data = export.model(parameters, size, tokens).SerializeToString()
        write_atomically(options.out, data)
        print(f"{options.out}: {len(data)} bytes", file=sys.stderr)
    except (GramophoneError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
