# SPDX-License-Identifier: BSD-2-Clause
"""`make demo-mali`: from GPUReplay's public recording of a Mali G71, with trained weights, to digits classified in
the secure world, as NumPy classifies them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from rich.console import Console

from docs.examples.reference import forward
from host_tools.demo.digits import Digits
from host_tools.demo.digits import load as load_digits
from host_tools.demo.stages import DIGITS, classify, compare, make_firmware, run_demo, say, sizes
from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.extras.importers.networks import file as networks
from host_tools.extras.importers.networks.weights import describe, read_weights, with_weights
from host_tools.passes.pipeline import build
from host_tools.support.messages import listening
from host_tools.support.progress import phase
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace

NAME = "mnist"


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; exit status 0 when everything that it claims was seen to happen."""
    parser = argparse.ArgumentParser(prog="make demo-mali", description=__doc__)
    parser.add_argument("recordings", type=Path, help="folder of GPUReplay's recordings, with one called mnist")
    parser.add_argument("--weights", type=Path, help=".npz file; default: weights/mnist.npz among the recordings")
    parser.add_argument("--digits", type=int, default=DIGITS, help="how many test digits to classify")
    given = parser.parse_args(arguments)
    weights = given.weights or given.recordings / "weights" / f"{NAME}.npz"
    digits = load_digits()[: given.digits]
    return run_demo(lambda console, folder: _demo(console, folder, given.recordings / NAME, weights, digits))


def _demo(console: Console, folder: Path, source: Path, weights: Path, digits: Digits) -> bool:
    network, content = networks.load(NAME), weights.read_bytes()
    with phase("importing"):
        recording = describe(import_gpureplay(source, NAME), network)
        recording = with_weights(recording, content, str(weights), network)
    say(console, "The recording", f"{recording.jobs} GPU jobs, {len(recording.actions)} actions; {network.title}")

    with phase("building and signing"):
        trace = build(recording)
        signer = FileSigner(generate(Algorithm.ES256))
        signed = sign_trace(trace.build(), signer)
    say(console, "Built and signed", f"{len(trace.actions)} actions, {len(signed)} bytes")
    firmware = make_firmware(console, recording.gpu, signer.public, folder)

    pictures = digits.inputs()[:, 0]
    results = classify(console, signed, signer.public, firmware, "input", pictures)
    if not results:
        return False
    with phase("asking NumPy"):
        expected = forward(network, read_weights(content, str(weights), network), pictures)
    found = np.stack([result.outputs["output"] for result in results])
    same = compare(console, digits, found, expected, "NumPy")
    sizes(console, signed, firmware, results[0])
    return same


if __name__ == "__main__":
    with listening():
        sys.exit(main())
