# SPDX-License-Identifier: BSD-2-Clause
"""Random networks of 8 bits and of TensorFlow Lite, on this machine or on virtual GPUs: whether the stretches
between roundings compute what ONNX Runtime does.

`python -m tests.support.random_stretches quantised|tflite --count N [--first SEED] [--judge GPU]` judges N
networks, by Mesa's driver for this machine's CPU or on a virtual GPU through its unmodified driver. Another is
drawn for one that ONNX Runtime itself, or its quantizer, refuses.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from host_tools.extras.tflite.choose import translated
from host_tools.families.speed import speed_of
from host_tools.machine.errors import RecordError
from host_tools.record import onnx_model
from host_tools.record.compiled import network, runner, schedule, simplified, stretches
from host_tools.record.compiled.layout import Layout, laid_out
from tests.support import node_guest, onnx_quantised, tflite_networks
from tests.support.onnx_quantised import UndrawnError

LAVAPIPE, RIGHT, UNDRAWN = "lavapipe", "right", "refused by ONNX Runtime itself"
Tensors = dict[str, NDArray[Any]]


def _tflite(seed: int, folder: Path) -> onnx_model.OnnxModel:
    """A network of float32 or of 8 bits, by turns; what it is translated to was compared with LiteRT."""
    path = folder / "drawn.tflite"
    path.write_bytes(tflite_networks.network(seed // 2, is_quantized=bool(seed % 2))[0])
    try:
        return translated(path, {}).model
    except RecordError as error:
        if "ONNX Runtime cannot run" in str(error):
            raise UndrawnError(str(error)) from error
        raise


KINDS: dict[str, Callable[[int, Path], onnx_model.OnnxModel]] = {
    "quantised": onnx_quantised.quantised,
    "tflite": _tflite,
}


@dataclass(frozen=True)
class Ready:
    """A network whose stretches are compiled: cut, with a plan, SPIR-V of its kernels, values of its inputs."""

    cut: stretches.Cut
    layout: Layout
    shaders: list[bytes]
    inputs: Tensors


def ready(kind: str, seed: int, wide: bool = False) -> Ready:
    """A network's stretches, compiled: with vectors if `wide`.

    Raises:
        UndrawnError: ONNX Runtime itself refuses it.
        RecordError, NotImplementedError and others: it is not compiled.
    """
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
        model = KINDS[kind](seed, Path(name))
        data = simplified.simplified(model, model.shapes({}))[1]
        kept = onnx_model.described(onnx.load_model_from_string(data))
        given = onnx_quantised.inputs(kept, np.random.default_rng(seed))
        made = stretches.cut(data, given)
        path = Path(name) / "whole.onnx"
        path.write_bytes(data)
        layout, shaders = network.ready(schedule.compiled(path, wide=wide))
        return Ready(made, laid_out(layout.plan.cut(made.probes)), shaders, given | made.expected)


def _judged(case: Ready, judge: Callable[[], Tensors]) -> str:
    try:
        return stretches.wrong(case.cut, judge()) or RIGHT
    except RecordError as error:
        return f"refused: {error}"


def _on_lavapipe(cases: Sequence[Ready]) -> list[str]:
    return [_judged(case, partial(runner.judged, case.layout, case.shaders, case.inputs)) for case in cases]


def _in_guest(cases: Sequence[Ready], gpu: str) -> list[str]:
    return [
        f"refused: {left}" if isinstance(left, str) else _judged(case, partial(case.layout.results, left))
        for case, left in zip(cases, node_guest.answers(cases, gpu), strict=True)
    ]


def outcomes(kind: str, seeds: Sequence[int], judge: str = LAVAPIPE) -> Iterator[tuple[int, str]]:
    """Of each network: RIGHT, what is wrong, who refuses it.

    Args:
        kind: of KINDS.
        judge: LAVAPIPE, or a virtual GPU.
    """
    is_guest = judge != LAVAPIPE
    size = node_guest.BATCH if is_guest else 1
    for group in (seeds[at : at + size] for at in range(0, len(seeds), size)):
        said: dict[int, str] = {}
        cases: dict[int, Ready] = {}
        for seed in group:
            try:
                cases[seed] = ready(kind, seed, is_guest and speed_of(judge).loads_vectors)
            except UndrawnError as error:
                said[seed] = f"{UNDRAWN}: {' '.join(str(error).split())[:80]}"
            except Exception as error:  # tinygrad raises what it likes
                said[seed] = f"refused: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        made = list(cases.values())
        said |= zip(cases, _in_guest(made, judge) if is_guest else _on_lavapipe(made), strict=True)
        yield from sorted(said.items())


def main() -> int:
    """Exit status 1 if a network is wrong or refused."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--first", type=int, default=0, help="seed of the first network")
    parser.add_argument("--count", type=int, default=10, help="networks that are judged")
    parser.add_argument("--judge", choices=(LAVAPIPE, *node_guest.GUESTS), default=LAVAPIPE)
    options = parser.parse_args()
    found: dict[int, str] = {}
    undrawn, next_seed = 0, options.first
    while left := options.count - len(found):
        seeds = range(next_seed, next_seed := next_seed + left)
        for seed, said in outcomes(options.kind, seeds, options.judge):
            print(seed, said, flush=True)
            if said.startswith(UNDRAWN):
                undrawn += 1
            else:
                found[seed] = said
    right = sum(said == RIGHT for said in found.values())
    drawn = f"seeds {options.first} to {next_seed - 1}"
    print(f"{len(found)} networks, {options.judge}, {drawn}: {right} right, {undrawn} more {UNDRAWN}")
    return 0 if right == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
