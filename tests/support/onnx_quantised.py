# SPDX-License-Identifier: BSD-2-Clause
"""Small random networks (onnx_drawing.py) that ONNX Runtime's quantizer has rounded to 8 bits: weights only, with
activations by their own range, as pairs of QuantizeLinear and DequantizeLinear, or by operators of its own; and
whether the stretches between roundings compute what ONNX Runtime does.

`python -m tests.support.onnx_quantised --count N [--first SEED]` tries so many of them on this machine.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnxruntime import quantization

from host_tools.record import onnx_model
from host_tools.record.compiled import network, runner, schedule, simplified, stretches
from tests.support.onnx_drawing import drawn

ROUNDS, INDICES = 3, 256  # runs by which the quantizer chooses ranges; whole numbers of inputs are below
WAYS = ("dynamic", quantization.QuantFormat.QDQ, quantization.QuantFormat.QOperator)
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


def tried(seed: int) -> str | None:
    """What is wrong with a network's stretches, compiled and run on this machine.

    Raises:
        RecordError, NotImplementedError and others: it is not compiled.
    """
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
        model = quantised(seed, Path(name))
        data = simplified.simplified(model, model.shapes({}))[1]
        kept = onnx_model.described(onnx.load_model_from_string(data))
        made = stretches.cut(data, inputs(kept, np.random.default_rng(seed)))
        path = Path(name) / "cut.onnx"
        path.write_bytes(made.data)
        layout, shaders = network.ready(schedule.compiled(path))
        given = inputs(kept, np.random.default_rng(seed)) | made.expected
        return stretches.wrong(made, runner.judged(layout, shaders, given))


def outcomes(seeds: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Of each network: "right", what is wrong, who refuses it."""
    for seed in seeds:
        try:
            yield seed, tried(seed) or "right"
        except UnquantisedError as error:
            yield seed, f"the quantizer refuses it: {' '.join(str(error).split())[:80]}"
        except Exception as error:  # tinygrad raises what it likes
            yield seed, f"refused: {type(error).__name__}: {' '.join(str(error).split())[:200]}"


def main() -> int:
    """Exit status 1 if a network is wrong or refused."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--first", type=int, default=0, help="seed of the first network")
    parser.add_argument("--count", type=int, default=10)
    options = parser.parse_args()
    bad = []
    for seed, said in outcomes(range(options.first, options.first + options.count)):
        print(seed, said, flush=True)
        if said != "right" and not said.startswith("the quantizer"):
            bad.append(seed)
    print(f"{options.count} networks: wrong or refused: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
