# SPDX-License-Identifier: BSD-2-Clause
"""What is named in place of a refused layer computes the same, and is recorded; refusals name it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from host_tools.record import layer_lists
from host_tools.record.ncnn.cpu import run_files
from host_tools.record.ncnn.cpu_layers import check_known, layers_on_cpu
from host_tools.record.ncnn.cpu_operators import LAYERS
from host_tools.record.ncnn.equivalents import BY_TINYGRAD, EQUIVALENTS, hint, meant
from host_tools.record.ncnn.known_layers import known_layers
from host_tools.record.ncnn.param import Layer, WrongError, layers_of
from tests.support import ncnn_text

Float32 = npt.NDArray[np.float32]
CHANCE = np.random.default_rng(1)
X: Float32 = CHANCE.standard_normal((4, 1, 9)).astype("f4")
ROW = X[:, 0]
POSITIVE = np.abs(X)
WEIGHTS = CHANCE.standard_normal(12).astype("<f4").tobytes()
FLAGGED = bytes(4) + WEIGHTS  # weights of convolutions: not of half precision
ONES = np.ones(4, "<f4").tobytes()
Q, K, V = (CHANCE.standard_normal((2, 5, 8)).astype("f4") for _ in range(3))
ATTENTION = (
    "MatMul m 2 1 in0 in1 s 0=1",
    "BinaryOp d 1 1 s t 0=2 1=1 2=0.35355339",
    "Softmax f 1 1 t p 0=2 1=1",
    "MatMul n 2 1 p in2 out0",
)
Network = tuple[tuple[str, ...], bytes, tuple[Float32, ...]]  # layers, weights, inputs


def one(layer: str, options: str = "", weights: bytes = b"", x: Float32 = X) -> Network:
    return (f"{layer} it 1 1 in0 out0 {options}".strip(),), weights, (x,)


# Option numbers: ncnn's docs/developer-guide/operators.md, and src/layer of those that it leaves out.
PAIRS: dict[str, tuple[Network, Network]] = {
    "BNLL": (one("BNLL"), one("Softplus")),
    "Bias": (one("Bias", "0=4", WEIGHTS[:16]), one("Scale", "0=4 1=1", ONES + WEIGHTS[:16])),
    "ConvolutionDepthWise1D": (
        one("ConvolutionDepthWise1D", "0=4 1=3 6=12 7=4", FLAGGED, ROW),
        one("ConvolutionDepthWise", "0=4 1=3 11=1 6=12 7=4", FLAGGED),
    ),
    "Deconvolution1D": (
        one("Deconvolution1D", "0=1 1=3 3=2 6=12", FLAGGED, ROW),
        one("Deconvolution", "0=1 1=3 11=1 3=2 13=1 6=12", FLAGGED),
    ),
    "DeconvolutionDepthWise1D": (
        one("DeconvolutionDepthWise1D", "0=4 1=3 3=2 6=12 7=4", FLAGGED, ROW),
        one("DeconvolutionDepthWise", "0=4 1=3 11=1 3=2 13=1 6=12 7=4", FLAGGED),
    ),
    "Exp": (one("Exp"), one("UnaryOp", "0=7")),
    "Log": (one("Log", x=POSITIVE), one("UnaryOp", "0=8", x=POSITIVE)),
    "MVN": (one("MVN", "0=1 1=0 2=1.0e-5"), one("InstanceNorm", "0=4 1=1.0e-5 2=0")),
    "MatMul": ((ATTENTION, b"", (Q, K, V)), (("SDPA a 3 1 in0 in1 in2 out0",), b"", (Q, K, V))),
    "Pooling1D": (
        one("Pooling1D", "0=0 1=3 2=2 5=1", x=ROW),
        one("Pooling", "0=0 1=3 11=1 2=2 12=1 5=1"),
    ),
    "Power": (one("Power", "0=2.5", x=POSITIVE), one("BinaryOp", "0=6 1=1 2=2.5", x=POSITIVE)),
}


def files(network: Network) -> tuple[bytes, bytes]:
    """The `.param` and the `.bin`; inputs in0, in1, ..., output out0."""
    layers, weights, given = network
    return ncnn_text.param([*(f"Input i{at} 0 1 in{at}" for at in range(len(given))), *layers]), weights


def inputs(network: Network) -> dict[str, Float32]:
    return {f"in{at}": value for at, value in enumerate(network[2])}


def computed(network: Network) -> Float32:
    return run_files(files(network), inputs(network))["out0"]


def types(network: Network) -> list[str]:
    return [layer.split()[0] for layer in network[0]]


@pytest.mark.parametrize("name", EQUIVALENTS)
def test_both_compute_the_same_and_one_is_recorded(name: str) -> None:
    refused, taken = PAIRS[name]
    assert name in types(refused)
    assert types(taken) == [EQUIVALENTS[name].layer]
    found = layer_lists.ncnn_layers()
    assert set(types(taken)) <= set(found.on_gpu)
    assert name in (*found.neither, *LAYERS)
    expected = computed(refused)
    assert np.ptp(expected) > 0
    np.testing.assert_allclose(computed(taken).reshape(expected.shape), expected, atol=2e-5)


@pytest.mark.parametrize("name", BY_TINYGRAD)
def test_tinygrad_has_what_is_named(name: str) -> None:
    assert name in layer_lists.ncnn_layers().neither
    assert BY_TINYGRAD[name] in layer_lists.onnx_operators()
    assert name not in EQUIVALENTS


@pytest.mark.parametrize("name", [*layer_lists.ncnn_layers().neither, "MatMul"])
def test_refusals_name_it(name: str) -> None:
    given = Layer("Input", "given", {}, [], ["a"], 1)
    layer = Layer(name, "it", {}, ["a", "a"], ["b"], 2)
    with pytest.raises(WrongError) as error:
        layers_on_cpu([given, layer])
    assert hint(name) in str(error.value)
    assert bool(hint(name)) == (name in EQUIVALENTS or name in BY_TINYGRAD)


def test_too_many_products_are_attention() -> None:
    layer = Layer("MatMul", "it", {}, ["a", "b"], ["c"], 3)
    with pytest.raises(WrongError, match="scaled_dot_product_attention"):
        LAYERS["MatMul"](layer, {"a": (32, 4, 4), "b": (32, 4, 4), "c": (32, 4, 4)})


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("Convolutoin", "Convolution"),
        ("leaky_relu", ""),
        ("softmax", "Softmax"),
        ("nn.Softmax", "Softmax"),
        ("GroupNorm2", "GroupNorm"),
        ("Anything", ""),
        ("", ""),
    ],
)
def test_types_that_are_nearly_right(wrong: str, right: str) -> None:
    assert meant(wrong, known_layers()) == (f"; did you mean {right}?" if right else "")


def test_a_type_that_is_not_known() -> None:
    text = "7767517\n2 2\nInput in0 0 1 in0\nPoolling pool 1 1 in0 out0\n"
    with pytest.raises(WrongError, match=r"has no layer of this type; did you mean Pooling\?"):
        check_known(layers_of(text))


def test_the_table_is_listed() -> None:
    """`record layers` shows it beside the refused layers."""
    import json

    from click.testing import CliRunner

    from host_tools.cli import main

    said: dict[str, Any] = json.loads(CliRunner().invoke(main, ["record", "layers", "--json"]).stdout)
    assert set(said["ncnn"]["instead"]) == (set(EQUIVALENTS) | set(BY_TINYGRAD)) - set(LAYERS)
    text = CliRunner().invoke(main, ["record", "layers", "--find", "lstm"]).stdout
    assert "    LSTM: LSTM of ONNX is compiled by record onnx or pytorch with --compiler tinygrad\n" in text
