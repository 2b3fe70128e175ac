# SPDX-License-Identifier: BSD-2-Clause
"""Small random networks (network_drawing.py) on the whole road: record, build, replay with an input of its own.

`python -m tests.support.random_networks --gpu GPU --count N [--group N] [--first SEED]` takes so many of them that
road, compares with ncnn's CPU code and prints what came of it.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from host_tools.machine.boot import GuestJob, job_digest
from host_tools.machine.errors import RecordError
from host_tools.model.interpreter import interpreter
from host_tools.passes.pipeline import build
from host_tools.record import shader_cache
from host_tools.record.differences import relative_difference
from host_tools.record.inputs import normal_inputs, random_inputs, telling_inputs
from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.ncnn import network
from host_tools.record.preflight import NetworkError
from host_tools.record.tolerances import TOLERANCE
from host_tools.support.gpu_folders import DEFAULT_GPU
from tests.support.network_drawing import INPUT_SEED, Drawn, drawn
from trace_format.errors import GramophoneError
from trace_format.trace import Trace

Tensors = dict[str, NDArray[np.float32]]
GROUP = 10


@dataclass(frozen=True)
class Outcome:
    """What came of one network.

    Attributes:
        seed: of the network.
        difference: of its replay from ncnn's CPU code, relative; NaN where there was none.
        said: why not, or "".
    """

    seed: int
    difference: float = float("nan")
    said: str = ""
    refused: bool = False

    @property
    def good(self) -> bool:
        """Right, or refused before anything was written."""
        return self.refused or self.difference <= TOLERANCE


class _Shaders:
    """Mesa's shader cache, kept from network to network: layers are alike, and compiling is most of the work.

    A recording proper starts from the cache that its own network left (host_tools/record/shader_cache.py).
    """

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}
        self._seeded: dict[str, GuestJob] = {}
        self._lock = threading.Lock()

    def with_shader_cache(self, job: GuestJob, warming: GuestJob, **how: Any) -> GuestJob:
        """As the recorder's, but the run that compiles starts with what is there."""
        with self._lock:
            seeded = self._seeded.setdefault(
                job_digest(warming), replace(warming, files={**warming.files, **self._kept})
            )
            found = shader_cache.with_shader_cache(job, seeded, **how)
            self._kept |= {name: data for name, data in found.files.items() if name.startswith(CACHE)}
        return found


CACHE = f"{shader_cache.GUEST_FOLDER}/"
_SHADERS: defaultdict[str, _Shaders] = defaultdict(_Shaders)  # by GPU
Replay = Callable[[Trace, Tensors], Tensors]


def on_virtual_gpu(trace: Trace, inputs: Tensors) -> Tensors:
    """The outputs of a replay in Python."""
    with interpreter(trace) as run:
        return dict(run.run({name: tensor.reshape(trace.slot(name).shape) for name, tensor in inputs.items()}))


def take_the_road(seeds: Sequence[int], gpu: str, replay: Replay = on_virtual_gpu) -> Iterator[Outcome]:
    """Record, build and replay these networks as one; one that is refused is found and left out."""
    dead = {seed: said for seed in seeds if (said := _is_constant(seed))}
    yield from (Outcome(seed, said=said, refused=True) for seed, said in dead.items())
    seeds = [seed for seed in seeds if seed not in dead]
    if not seeds:
        return
    made = drawn(seeds)
    try:
        with patch.object(network, "with_shader_cache", _SHADERS[gpu].with_shader_cache):
            raw = network.record_network(*made.files(), made.inputs, name="random", gpu=gpu)
    except RecordError as error:
        yield from refused(seeds, error, lambda part: take_the_road(part, gpu, replay))
        return
    try:
        trace = build(Trace.parse(raw.build(), "random"))
        worst = _worst(trace, made, replay)
    except GramophoneError as error:
        yield from (Outcome(seed, said=str(error)) for seed in seeds)
        return
    for seed in seeds:
        yield Outcome(seed, max(value for name, value in worst.items() if name.startswith(f"n{seed}_")))


def refused(
    seeds: Sequence[int], error: RecordError, again: Callable[[Sequence[int]], Iterator[Outcome]]
) -> Iterator[Outcome]:
    """Of networks that were refused as one: which of them it is, by the same for each half."""
    if len(seeds) == 1:
        yield Outcome(seeds[0], said=str(error), refused=True)
        return
    print(f"{list(seeds)}: {error}", file=sys.stderr)
    half = len(seeds) // 2
    for part in (seeds[:half], seeds[half:]):
        yield from again(part)


def _is_constant(seed: int) -> str:
    """What the recorder says of a network with an output that is always the same, before it starts the guest."""
    made = drawn([seed])
    try:
        telling_inputs(made.inputs, lambda inputs: ncnn_cpu.run_files(made.files(), inputs))
    except NetworkError as error:
        return str(error)
    return ""


def _worst(trace: Trace, made: Drawn, replay: Replay) -> dict[str, float]:
    """Each output's difference, the larger one of two inputs that the recorder did not see."""
    worst: dict[str, float] = {}
    for inputs in (normal_inputs(made.inputs, INPUT_SEED, 0.7), random_inputs(made.inputs, INPUT_SEED)):
        expected = ncnn_cpu.run_files(made.files(), inputs)
        found = replay(trace, inputs)
        for name, tensor in expected.items():
            difference = relative_difference(found[name].reshape(tensor.shape), tensor)
            worst[name] = max(worst.get(name, 0.0), difference)
    return worst


def main() -> int:
    """Exit status 1 if a network was recorded and is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--gpu", default=DEFAULT_GPU)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--group", type=int, default=GROUP)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    outcomes = []
    for begin in range(args.first, args.first + args.count, args.group):
        seeds = range(begin, min(begin + args.group, args.first + args.count))
        for outcome in take_the_road(seeds, args.gpu):
            outcomes.append(outcome)
            print(f"{outcome.seed:6} {outcome.difference:9.2e} {outcome.said}", flush=True)
    refused = sum(outcome.refused for outcome in outcomes)
    wrong = [outcome.seed for outcome in outcomes if not outcome.good]
    right = [outcome.difference for outcome in outcomes if outcome.good and not outcome.refused]
    print(
        f"{args.gpu}: {len(right)} right (at most {max(right, default=0):.1e}), {refused} refused, wrong: {wrong}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
