# SPDX-License-Identifier: BSD-2-Clause
"""Small random networks (onnx_drawing.py) that ONNX Runtime's quantizer has rounded to 8 bits: weights only, with
activations by their own range, as pairs of QuantizeLinear and DequantizeLinear, or by operators of its own; and
whether the stretches between roundings compute what ONNX Runtime does.

`python -m tests.support.onnx_quantised --count N [--first SEED] [--judge GPU]` tries so many of them, by Mesa's
driver for this machine's CPU or on a virtual GPU through its unmodified driver.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnxruntime import quantization

from host_tools.families.speed import speed_of
from host_tools.machine.errors import RecordError
from host_tools.record import onnx_model
from host_tools.record.compiled import network, runner, schedule, simplified, stretches
from host_tools.record.compiled.layout import Layout
from tests.support import node_guest
from tests.support.onnx_drawing import drawn

ROUNDS, INDICES = 3, 256  # runs by which the quantizer chooses ranges; whole numbers of inputs are below
WAYS = ("dynamic", quantization.QuantFormat.QDQ, quantization.QuantFormat.QOperator)
LAVAPIPE, RIGHT, UNQUANTISED = "lavapipe", "right", "refused by the quantizer itself"
Tensors = dict[str, NDArray[Any]]


class UnquantisedError(Exception):
    """The quantizer does not take the network."""


class _Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, model: onnx_model.OnnxModel, random: np.random.Generator) -> None:
        self._given = iter([inputs(model, random) for _ in range(ROUNDS)])

    def get_next(self) -> Mapping[str, NDArray[Any]] | None:
        return next(self._given, None)


def inputs(model: onnx_model.OnnxModel, random: np.random.Generator) -> Tensors:
    """Values for the inputs of a network whose shapes are known."""
    found = {}
    for name, shape in model.shapes({}).items():
        whole = model.types[name] != "float32"
        value = random.integers(0, INDICES, shape) if whole else random.normal(0, 0.8, shape)
        found[name] = value.astype(model.types[name])
    return found


def quantised(seed: int, folder: Path) -> onnx_model.OnnxModel:
    """A network, rounded in a way that the seed draws.

    Raises:
        UnquantisedError: the quantizer fails.
    """
    random = np.random.default_rng([20261130, seed])
    given, path = folder / "given.onnx", folder / "quantised.onnx"
    given.write_bytes(drawn([seed]))
    way = WAYS[seed % len(WAYS)]
    kinds = (quantization.QuantType.QInt8, quantization.QuantType.QUInt8)
    how: dict[str, Any] = {"per_channel": bool(random.integers(2)), "weight_type": kinds[int(random.integers(2))]}
    logging.disable(logging.WARNING)
    try:
        if isinstance(way, str):
            quantization.quantize_dynamic(given, path, **how)
        else:
            reader = _Reader(onnx_model.read(given), random)
            quantization.quantize_static(given, path, reader, quant_format=way, **how)
    except Exception as error:  # whatever it raises
        raise UnquantisedError(str(error)) from error
    finally:
        logging.disable(logging.NOTSET)
    return onnx_model.read(path)


@dataclass(frozen=True)
class Ready:
    """A network whose stretches are compiled: cut, with a plan, SPIR-V of its kernels, values of its inputs."""

    cut: stretches.Cut
    layout: Layout
    shaders: list[bytes]
    inputs: Tensors


def ready(seed: int, wide: bool = False) -> Ready:
    """A network's stretches, compiled: with vectors if `wide`.

    Raises:
        UnquantisedError: the quantizer fails.
        RecordError, NotImplementedError and others: it is not compiled.
    """
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
        model = quantised(seed, Path(name))
        data = simplified.simplified(model, model.shapes({}))[1]
        kept = onnx_model.described(onnx.load_model_from_string(data))
        given = inputs(kept, np.random.default_rng(seed))
        made = stretches.cut(data, given)
        path = Path(name) / "cut.onnx"
        path.write_bytes(made.data)
        layout, shaders = network.ready(schedule.compiled(path, wide=wide))
        return Ready(made, layout, shaders, given | made.expected)


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


def outcomes(seeds: Sequence[int], judge: str = LAVAPIPE) -> Iterator[tuple[int, str]]:
    """Of each network: RIGHT, what is wrong, who refuses it.

    Args:
        judge: LAVAPIPE, or a virtual GPU.
    """
    is_guest = judge != LAVAPIPE
    group = node_guest.BATCH if is_guest else 1
    for at in range(0, len(seeds), group):
        said: dict[int, str] = {}
        cases: dict[int, Ready] = {}
        for seed in seeds[at : at + group]:
            try:
                cases[seed] = ready(seed, is_guest and speed_of(judge).loads_vectors)
            except UnquantisedError as error:
                said[seed] = f"{UNQUANTISED}: {' '.join(str(error).split())[:80]}"
            except Exception as error:  # tinygrad raises what it likes
                said[seed] = f"refused: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        made = list(cases.values())
        said |= zip(cases, _in_guest(made, judge) if is_guest else _on_lavapipe(made), strict=True)
        yield from sorted(said.items())


def main() -> int:
    """Exit status 1 if a network is wrong or refused."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--first", type=int, default=0, help="seed of the first network")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--judge", choices=(LAVAPIPE, *node_guest.GUESTS), default=LAVAPIPE)
    options = parser.parse_args()
    found: dict[int, str] = {}
    for seed, said in outcomes(range(options.first, options.first + options.count), options.judge):
        print(seed, said, flush=True)
        found[seed] = said
    right = sum(said == RIGHT for said in found.values())
    unquantised = sum(said.startswith(UNQUANTISED) for said in found.values())
    print(f"{len(found)} networks, {options.judge}: {right} right, {unquantised} {UNQUANTISED}")
    return 0 if right + unquantised == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
