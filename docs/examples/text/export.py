# SPDX-License-Identifier: BSD-2-Clause
"""A decoder as an ONNX network that makes one token a run; what a run hands to the next is among its inputs.

| input | what it is |
|---|---|
| `given`: int32[1] | the token that comes next, from the caller; below 0: the one that the last run chose |
| `temperature`: float32[1] | 0: the likeliest token; above: drawn from those that are likely enough |
| `seed`: int32[1] | of what is drawn, not below 0 |
| `token`, `position`, `random`: int32[1] | state: the last choice, its place, the generator of random numbers |
| `keys`, `values`: float32[layers, heads, positions, width / heads] | state: the cache |

Outputs are `next_` and the name of each state, and `logits`. After the last position the text begins anew, with
the token that was chosen last. Weights are int8 with a scale for each output; the tokens' texts are in the file's
metadata as `tokens`, a JSON list.
"""

import json
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from docs.examples.text.decoder import EPSILON, Array, Parameters, Size

OPSET = 18
STATE = ("token", "position", "random", "keys", "values")
NEXT = "next_"
TOKENS = "tokens"  # of the metadata
LIKELY = 0.05  # a token is drawn if it is so likely, the likeliest being 1
COLDEST = 1e-3  # of temperatures; what is below counts as this
# Numerical Recipes' "quick and dirty" generator: products stay below 2^31.
FACTOR, ADDEND, MODULUS = 171, 11213, 53125


class _Graph:
    """Nodes and constants in the making; values are called by names."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """One node; the name of its output."""
        name = name or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name, **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.float32, name: str = "") -> str:
        """A constant; the same one for the same value."""
        array = np.asarray(value, dtype)
        for known, held in self.constants.items():
            if not name and held.dtype == array.dtype and np.array_equal(held, array):
                return known
        name = name or f"constant_{len(self.constants)}"
        self.constants[name] = array
        return name

    def quantized(self, name: str, weight: Array, axis: int) -> tuple[str, str]:
        """int8 weights with a scale for each index of an axis: names of both."""
        other = tuple(at for at in range(weight.ndim) if at != axis)
        scale = np.abs(weight).max(other, keepdims=True) / 127
        values = np.rint(weight / scale).astype(np.int8)
        return self.constant(values, np.int8, name), self.constant(scale.reshape(-1), name=f"{name} scale")

    def product(self, x: str, name: str, weight: Array) -> str:
        """x @ weight, which is (inputs, outputs)."""
        values, scale = self.quantized(name, weight, 1)
        return self.add("MatMul", x, self.add("DequantizeLinear", values, scale, axis=1))

    def row(self, table: tuple[str, str], at: str) -> str:
        """A row of int8 values, (1, width)."""
        values = self.add("Cast", self.add("Gather", table[0], at), to=TensorProto.FLOAT)
        scale = self.add("Gather", table[1], at)
        return self.add("Mul", values, self.add("Reshape", scale, self.constant([1, 1], np.int64)))

    def norm(self, x: str) -> str:
        """x divided by its root of the mean square."""
        mean = self.add("ReduceMean", self.add("Mul", x, x), self.constant([1], np.int64), keepdims=1)
        return self.add("Div", x, self.add("Sqrt", self.add("Add", mean, self.constant(EPSILON))))


def model(p: Parameters, size: Size, tokens: list[str]) -> Any:
    """The network, an `onnx.ModelProto`.

    Args:
        p: float32 parameters of `decoder`.
        size: of the decoder.
        tokens: the texts of its tokens.
    """
    g = _Graph()
    zero = g.constant([0], np.int32)
    table = g.quantized("tokens", p["tokens"], 0)
    now = g.add("Where", g.add("Less", "given", zero), "token", "given")
    x = g.add("Add", g.row(table, now), g.row(g.quantized("positions", p["positions"], 0), "position"))
    places = g.constant(np.arange(size.positions).reshape(1, -1, 1), np.int32)
    here = g.add("Equal", places, "position")
    before = g.add("LessOrEqual", g.constant(np.arange(size.positions).reshape(1, 1, -1), np.int32), "position")
    hidden = g.add("Where", before, g.constant(0.0), g.constant(-1e9))
    caches: dict[str, list[str]] = {"keys": [], "values": []}
    for layer in range(size.layers):
        gain = p[f"{layer}.attention gain"][:, None]
        a = g.norm(x)
        heads = {}
        for name in ("query", "key", "value"):
            flat = g.product(a, f"{layer}.{name}", gain * p[f"{layer}.{name}"])
            heads[name] = g.add("Reshape", flat, g.constant([size.heads, 1, -1], np.int64))
        for cache, name in (("keys", "key"), ("values", "value")):
            old = g.add("Gather", cache, g.constant(layer, np.int64), axis=0)
            caches[cache].append(g.add("Where", here, heads[name], old))
        turned = g.add("Transpose", caches["keys"][-1], perm=[0, 2, 1])
        scores = g.add("MatMul", heads["query"], turned)
        scaled = g.add("Mul", scores, g.constant(1 / np.sqrt(size.width // size.heads)))
        weights = g.add("Softmax", g.add("Add", scaled, hidden), axis=2)
        mixed = g.add("Reshape", g.add("MatMul", weights, caches["values"][-1]), g.constant([1, -1], np.int64))
        x = g.add("Add", x, g.product(mixed, f"{layer}.out", p[f"{layer}.out"]))
        gain = p[f"{layer}.dense gain"][:, None]
        up = g.add("Relu", g.product(g.norm(x), f"{layer}.up", gain * p[f"{layer}.up"]))
        x = g.add("Add", x, g.product(up, f"{layer}.down", p[f"{layer}.down"]))
    last = g.add("Mul", g.norm(x), g.constant(p["gain"]))
    logits = g.add("Gemm", last, g.add("DequantizeLinear", *table, axis=0), transB=1, name="logits")
    _choose(g, logits, size)
    for cache, layers in caches.items():
        parts = [g.add("Unsqueeze", part, g.constant([0], np.int64)) for part in layers]
        g.add("Concat", *parts, name=NEXT + cache, axis=0)
    following = g.add("Add", "position", g.constant([1], np.int32))
    g.add("Mod", following, g.constant([size.positions], np.int32), name=f"{NEXT}position")
    return _file(g, size, tokens)


def _choose(g: _Graph, logits: str, size: Size) -> None:
    """Draw the next token: the first at which the sum of what is likely passes a random part of the whole."""
    modulus = g.constant([MODULUS], np.int32)
    begins = g.add("Equal", "position", g.constant([0], np.int32))
    kept = g.add("Where", begins, g.add("Mod", "seed", modulus), "random")
    grown = g.add("Add", g.add("Mul", kept, g.constant([FACTOR], np.int32)), g.constant([ADDEND], np.int32))
    drawn = g.add("Cast", g.add("Mod", grown, modulus, name=f"{NEXT}random"), to=TensorProto.FLOAT)
    warm = g.add("Max", "temperature", g.constant([COLDEST]))
    highest = g.add("ReduceMax", logits, g.constant([1], np.int64), keepdims=1)
    weights = g.add("Exp", g.add("Div", g.add("Sub", logits, highest), warm))
    likely = g.add("Where", g.add("Less", weights, g.constant(LIKELY)), g.constant(0.0), weights)
    sums = g.add("CumSum", likely, g.constant(1, np.int64))
    whole = g.add("ReduceMax", sums, g.constant([1], np.int64), keepdims=1)
    until = g.add("Mul", whole, g.add("Div", drawn, g.constant([MODULUS])))
    passed = g.add("Cast", g.add("LessOrEqual", sums, until), to=TensorProto.INT32)
    at = g.add("ReduceSum", passed, g.constant([1], np.int64), keepdims=0)
    g.add("Min", at, g.constant([size.tokens - 1], np.int32), name=f"{NEXT}token")


def _file(g: _Graph, size: Size, tokens: list[str]) -> Any:
    cache = (size.layers, size.heads, size.positions, size.width // size.heads)
    shapes = dict.fromkeys(("token", "position", "random"), (TensorProto.INT32, (1,)))
    state = shapes | dict.fromkeys(("keys", "values"), (TensorProto.FLOAT, cache))
    given = {"given": (TensorProto.INT32, (1,)), "temperature": (TensorProto.FLOAT, (1,))}
    inputs = {**given, "seed": (TensorProto.INT32, (1,)), **state}
    outputs = {NEXT + name: of for name, of in state.items()} | {"logits": (TensorProto.FLOAT, (1, size.tokens))}
    graph = helper.make_graph(
        g.nodes,
        "decoder",
        [helper.make_tensor_value_info(name, *of) for name, of in inputs.items()],
        [helper.make_tensor_value_info(name, *of) for name, of in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in g.constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    made.ir_version = 9
    helper.set_model_props(made, {TOKENS: json.dumps(tokens)})
    onnx.checker.check_model(made, full_check=True)
    return made
