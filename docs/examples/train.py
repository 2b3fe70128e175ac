# SPDX-License-Identifier: BSD-2-Clause
"""Trains the demo's LeNet and writes it as an ncnn model, with a set of test digits: `make demo-train`.

One seed and one BLAS thread: on the same kind of CPU with the same NumPy, the files come out identical.
"""

import argparse
import hashlib
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from docs.examples import export, lenet, mnist
from host_tools.demo import ncnn_model
from host_tools.demo.digits import COMMITTED, Digits, DigitsError

SEED = 1
EPOCHS = 60
BATCH = 50
RATE = 4e-3  # of the first step; it falls to zero along half a cosine
SHIFT = 2  # pixels, at most, in each direction: the augmentation
COMMITTED_DIGITS = 200
REQUIRED_ACCURACY = 0.98


def train(digits: Digits, seed: int = SEED, epochs: int = EPOCHS) -> lenet.Parameters:
    """Trains a LeNet with Adam (Kingma & Ba, 2015) on randomly shifted digits."""
    random = np.random.default_rng(seed)
    parameters = lenet.initial(random)
    mean = {name: np.zeros_like(value) for name, value in parameters.items()}
    square = {name: np.zeros_like(value) for name, value in parameters.items()}
    inputs = digits.inputs()
    batches = len(digits) // BATCH
    step = 0
    for epoch in range(epochs):
        loss = 0.0
        for which in random.permutation(len(digits))[: batches * BATCH].reshape(batches, BATCH):
            probability, kept = lenet.forward(parameters, shifted(inputs[which], random))
            loss -= float(np.log(probability[np.arange(BATCH), digits.labels[which]] + 1e-9).mean())
            gradient = lenet.backward(parameters, kept, probability, digits.labels[which])
            rate = np.float32(RATE * (1 + np.cos(np.pi * step / (epochs * batches))) / 2)
            step += 1
            for name, g in gradient.items():
                mean[name] += np.float32(0.1) * (g - mean[name])
                square[name] += np.float32(0.001) * (g * g - square[name])
                unbiased = mean[name] / np.float32(1 - 0.9**step)
                spread = np.sqrt(square[name] / np.float32(1 - 0.999**step))
                parameters[name] -= rate * unbiased / (spread + np.float32(1e-8))
        print(f"epoch {epoch + 1}/{epochs}: loss {loss / batches:.4f}", file=sys.stderr)
    return parameters


def shifted(x: lenet.Array, random: np.random.Generator) -> lenet.Array:
    """Moves each picture of (n, 1, 28, 28) by up to SHIFT pixels down or up, and right or left."""
    padded = np.pad(x, ((0, 0), (0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, x.shape[2:], axis=(2, 3))
    down, right = random.integers(0, 2 * SHIFT + 1, (2, len(x)))
    return windows[np.arange(len(x)), :, down, right]


def accuracy(probability: lenet.Array, digits: Digits) -> float:
    """The fraction of the digits whose most probable class is the right one."""
    return float((probability.argmax(1) == digits.labels).mean())


def write(parameters: lenet.Parameters, test: Digits, folder: Path) -> None:
    """Writes the model and the first test digits, once ncnn itself is seen to agree on the whole test split.

    Raises:
        ValueError: ncnn's probabilities differ from NumPy's, or the accuracy is below the required one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        scratch = Path(name)
        param, bin_ = scratch / "lenet.param", scratch / "lenet.bin"
        param.write_text(export.PARAM, encoding="utf-8")
        bin_.write_bytes(export.weights(parameters))
        test[:COMMITTED_DIGITS].save(scratch / "digits.npz")
        ours, _ = lenet.forward(parameters, test.inputs())
        theirs = ncnn_model.classify(param, bin_, test.inputs())
        difference = float(np.abs(ours - theirs).max())
        print(f"NumPy:    {accuracy(ours, test):.2%} of {len(test)} test digits")
        print(f"ncnn CPU: {accuracy(theirs, test):.2%}, largest difference in a probability {difference:.1e}")
        if difference > 1e-4 or accuracy(theirs, test) != accuracy(ours, test):
            raise ValueError("ncnn and NumPy disagree: the exported model is wrong")
        if accuracy(theirs, test) < REQUIRED_ACCURACY:
            raise ValueError(f"accuracy below {REQUIRED_ACCURACY:.0%}: nothing written")
        for path in sorted(scratch.iterdir()):
            content = path.read_bytes()
            print(f"{hashlib.sha256(content).hexdigest()}  {path.name}  {len(content)} bytes")
            path.rename(folder / path.name)


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m docs.examples.train", description=__doc__)
    parser.add_argument("--out", type=Path, default=COMMITTED.parent, help="folder to write (%(default)s)")
    folder: Path = parser.parse_args().out
    begin = time.monotonic()
    try:
        training, test = mnist.split(mnist.read(mnist.fetch()))
        print(f"{len(training)} digits to train on, {len(test)} to test", file=sys.stderr)
        with threadpool_limits(1):
            write(train(training), test, folder)
    except (DigitsError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
