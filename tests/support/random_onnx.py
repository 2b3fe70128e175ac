# SPDX-License-Identifier: BSD-2-Clause
"""Small random ONNX networks (onnx_drawing.py) on the whole road by tinygrad: recorded, built, replayed with an
input of its own, and compared with ONNX Runtime.

`python -m tests.support.random_onnx --gpu GPU --count N [--group N] [--first SEED]` takes so many of them that
road.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.machine.boot import BOOT_TIMEOUT_S
from host_tools.machine.errors import RecordError
from host_tools.passes.pipeline import build
from host_tools.record import onnx_model
from host_tools.record.choosing import TINYGRAD
from host_tools.record.differences import relative_difference
from host_tools.record.frontends import record_onnx
from host_tools.record.onnx_model import OnnxModel
from host_tools.support.gpu_folders import DEFAULT_GPU
from tests.support.onnx_drawing import drawn
from tests.support.random_networks import Outcome, Replay, on_virtual_gpu, refused
from trace_format.errors import GramophoneError
from trace_format.trace import Trace

GROUP, INPUT_SEED, INDICES = 10, 3, 256
Tensors = dict[str, NDArray[Any]]


def take_the_road(seeds: Sequence[int], gpu: str, replay: Replay = on_virtual_gpu) -> Iterator[Outcome]:
    """Record, build and replay these networks as one; one that is refused is found and left out."""
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
        path = Path(folder) / "random.onnx"
        path.write_bytes(drawn(seeds))
        try:
            how: dict[str, Any] = {"name": "random", "gpu": gpu, "timeout": BOOT_TIMEOUT_S}
            raw = record_onnx(path, {}, compiler=TINYGRAD, **how)
        except RecordError as error:
            yield from refused(seeds, error, lambda part: take_the_road(part, gpu, replay))
            return
        network = onnx_model.read(path)
        try:
            worst = _worst(build(Trace.parse(raw.build(), "random")), network, replay)
        except GramophoneError as error:
            yield from (Outcome(seed, said=str(error)) for seed in seeds)
            return
    for seed in seeds:
        yield Outcome(seed, max(value for name, value in worst.items() if name.startswith(f"n{seed}_")))


def _worst(trace: Trace, network: OnnxModel, replay: Replay) -> dict[str, float]:
    """Each output's difference with an input that the recorder did not see."""
    generator = np.random.default_rng(INPUT_SEED)
    given: Tensors = {}
    for name, shape in network.shapes({}).items():
        whole = network.types[name] != "float32"
        value = generator.integers(0, INDICES, shape) if whole else generator.normal(0, 0.8, shape)
        given[name] = value.astype(network.types[name])
    slots = {slot.name: slot for slot in trace.slots}
    found = replay(trace, {name: value.astype(slots[name].numpy_dtype) for name, value in given.items()})
    expected = onnx_model.run(network, given)
    return {name: relative_difference(found[name].reshape(value.shape), value) for name, value in expected.items()}


def main() -> int:
    """Exit status 1 if a network was recorded and is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--gpu", default=DEFAULT_GPU)
    parser.add_argument("--first", type=int, default=0, help="seed of the first network")
    parser.add_argument("--count", type=int, default=GROUP)
    parser.add_argument("--group", type=int, default=GROUP, help="networks that are recorded as one")
    options = parser.parse_args()
    outcomes: list[Outcome] = []
    for first in range(options.first, options.first + options.count, options.group):
        seeds = range(first, min(first + options.group, options.first + options.count))
        for outcome in take_the_road(seeds, options.gpu):
            outcomes.append(outcome)
            print(outcome.seed, outcome.said or f"{outcome.difference:.2e}", flush=True)
    wrong = [outcome.seed for outcome in outcomes if not outcome.good]
    refused = sum(outcome.refused for outcome in outcomes)
    print(f"{len(outcomes)} networks on {options.gpu}: {refused} refused, wrong: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
