# SPDX-License-Identifier: BSD-2-Clause
"""Weights of a few bits in blocks, of random shapes: compiled, they compute what ONNX Runtime computes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from host_tools.record import onnx_model
from host_tools.record.compiled import simplified
from host_tools.record.preflight import NetworkError
from tests.support import node_cases
from tests.support.node_cases import NodeCase, Why
from tests.support.sampling import SomeOf

pytestmark = pytest.mark.usefixtures("without_sandboxes")
BLOCKS = (16, 32, 128)
ZEROS = ("none", "packed", "floats")
# ONNX Runtime has no 8 bits with zero points that are floats.
PRODUCTS = [it for it in itertools.product((4, 8), BLOCKS, ZEROS) if it[0] == 4 or it[2] != "floats"]
TABLES = list(itertools.product(("int4", "uint4", "4 in uint8", "8 in uint8"), BLOCKS, (False, True)))
# Type of what is dequantised, size of a block (0: a scale for a row; -1: one for all), axis, zero points.
TENSORS = list(itertools.product((TensorProto.INT4, TensorProto.UINT4), (-1, 0, *BLOCKS), (0, 1), (False, True)))
Random = np.random.Generator
Tensors = dict[str, NDArray[Any]]


def made(nodes: list[Any], inputs: Tensors, constants: list[Any], name: str) -> NodeCase:
    """The network, and what ONNX Runtime makes of it."""
    graph = helper.make_graph(
        nodes,
        "few",
        [
            helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for key, value in inputs.items()
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        constants,
    )
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    expected = onnx_model.session(onnx_model.described(model))(inputs)
    return NodeCase(name, model.SerializeToString(), inputs, expected, 1e-4, 1e-4)


def numbers(random: Random, *shape: int) -> NDArray[np.float32]:
    return random.normal(0, 1, shape).astype(np.float32)


def of_four(random: Random, name: str, kind: int, shape: list[int]) -> Any:
    """A tensor of four bits."""
    low = -8 if kind == TensorProto.INT4 else 0
    return helper.make_tensor(name, kind, shape, random.integers(low, low + 16, shape).reshape(-1).tolist())


def in_bytes(random: Random, *shape: int) -> NDArray[np.uint8]:
    return random.integers(0, 256, shape).astype(np.uint8)


def product(bits: int, block: int, zeros: str, random: Random) -> NodeCase:
    """MatMulNBits; the last block may be short."""
    rows, columns = int(random.integers(block + 1, 3 * block)), int(random.integers(2, 12))
    blocks = -(-rows // block)
    constants = {
        "w": in_bytes(random, columns, blocks, block * bits // 8),
        "s": numbers(random, columns * blocks),
        "z": numbers(random, columns * blocks) * 8
        if zeros == "floats"
        else in_bytes(random, columns * -(-blocks * bits // 8)),
    }
    if zeros == "none":
        del constants["z"]
    node = helper.make_node(
        "MatMulNBits",
        ["x", *constants],
        ["y"],
        domain="com.microsoft",
        bits=bits,
        block_size=block,
        K=rows,
        N=columns,
    )
    given = {"x": numbers(random, int(random.integers(1, 4)), rows)}
    tensors = [numpy_helper.from_array(value, key) for key, value in constants.items()]
    return made([node], given, tensors, f"{bits} bits, blocks of {block}, zero points: {zeros}")


def gather(kind: str, block: int, has_zeros: bool, random: Random) -> NodeCase:
    """GatherBlockQuantized of rows, quantised along their elements."""
    rows, blocks = int(random.integers(3, 9)), int(random.integers(1, 4))
    width, bits = blocks * block, 8 if kind.startswith("8") else 4
    if kind.endswith("uint8"):
        table = numpy_helper.from_array(in_bytes(random, rows, width * bits // 8), "w")
        zeros = numpy_helper.from_array(in_bytes(random, rows, -(-blocks * bits // 8)), "z")
    else:
        four = TensorProto.INT4 if kind == "int4" else TensorProto.UINT4
        table, zeros = of_four(random, "w", four, [rows, width]), of_four(random, "z", four, [rows, blocks])
    constants = [table, numpy_helper.from_array(numbers(random, rows, blocks), "s"), *[zeros] * has_zeros]
    names = ["w", "i", "s", *["z"] * has_zeros]
    options = {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}
    node = helper.make_node("GatherBlockQuantized", names, ["y"], domain="com.microsoft", **options)
    given = {"i": random.integers(0, rows, (2, 3)).astype(np.int32)}
    return made([node], given, constants, f"{kind}, blocks of {block}, zero points: {has_zeros}")


def tensor(kind: int, block: int, axis: int, has_zeros: bool, random: Random) -> NodeCase:
    """DequantizeLinear of four bits, and a product with it."""
    shape = [int(size) for size in random.integers(2, 12, 2)]
    scales = []
    if block > 0:
        shape[axis] = block * int(random.integers(1, 4))
        scales = [size // block if at == axis else size for at, size in enumerate(shape)]
    elif block == 0:
        scales = [shape[axis]]
    options = {"axis": axis} | ({"block_size": block} if block > 0 else {})
    constants = [
        of_four(random, "w", kind, shape),
        numpy_helper.from_array(numbers(random, *scales), "s"),
        *[of_four(random, "z", kind, scales)] * has_zeros,
    ]
    nodes = [
        helper.make_node("DequantizeLinear", [item.name for item in constants], ["d"], **options),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    given = {"x": numbers(random, 3, shape[0])}
    return made(nodes, given, constants, f"type {kind}, {options}, zero points: {has_zeros}")


@pytest.mark.parametrize(
    ("build", "options", "count"), [(product, PRODUCTS, 6), (gather, TABLES, 6), (tensor, TENSORS, 6)]
)
def test_what_a_few_bits_stand_for(some_of: SomeOf, build: Any, options: list[Any], count: int) -> None:
    wrong = {}
    for number in some_of(list(range(len(options))), count):
        case = build(*options[number], np.random.default_rng(number))
        if (found := node_cases.run(case))[0] != Why.PASSED:
            wrong[case.name] = found
    assert wrong == {}


@pytest.mark.parametrize(
    ("kind", "domain", "said"),
    [
        (
            "GatherBlockQuantized",
            "com.microsoft",
            "GatherBlockQuantized: its table, scales and zero points must be",
        ),
        ("DequantizeLinear", "", "DequantizeLinear of 4 bits: its scales and zero points must be constants"),
    ],
)
def test_what_is_refused(kind: str, domain: str, said: str) -> None:
    node = helper.make_node(kind, ["w", "i", "s"], ["y"], domain=domain)
    inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 4]) for name in "is"]
    weights = [of_four(np.random.default_rng(0), "w", TensorProto.INT4, [4, 4])]
    graph = helper.make_graph([node], "refused", inputs, [helper.make_tensor_value_info("y", 1, None)], weights)
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    with pytest.raises(NetworkError, match=said):
        simplified.for_compiler(helper.make_model(graph, opset_imports=sets))
