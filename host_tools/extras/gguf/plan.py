# SPDX-License-Identifier: BSD-2-Clause
"""A GGUF file's decoder as a plan of kernels: one token a run.

Inputs are `given` (a token, or below 0 for the one that was chosen last) and SETTINGS. Outputs are `chosen`,
`left` (positions that are left) and `logits`. `token`, `position`, `keys` and `values` are state, which the jobs
change in place. A layer's number is in no kernel, so that all layers share a dozen.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.gguf import kernels
from host_tools.extras.gguf.blocks import COLUMNS
from host_tools.extras.gguf.conversation import CHOSEN, GIVEN, LEFT, LIKELIEST, SEED, TEMPERATURE, TOP_K, TOP_P
from host_tools.extras.gguf.model import BIASES, NORMS, Model
from host_tools.extras.gguf.products import LANES, TYPES, Matrix, joined, laid_out, parted, product
from host_tools.extras.gguf.reference import Reference
from host_tools.record.compiled.plan import Buffer, Call, Kind, Plan, View

ROWS = 2  # that a lane computes where a matrix has as many: it loads the vector once for all
# Inputs that say how to choose, and their values where the likeliest token is chosen.
SETTINGS = {name: np.float32(one) if isinstance(one, float) else np.int32(one) for name, one in LIKELIEST.items()}
LOGITS = "logits"
STATE = ("token", "position", "keys", "values")
Bound = tuple[str, View, bool]  # type of the elements in GLSL, what it is, whether it is written


class _Making:
    """Buffers, kernels and calls in the making."""

    def __init__(self, wide: bool) -> None:
        self.wide = wide
        self.buffers: list[Buffer] = []
        self.kernels: dict[str, int] = {}
        self.calls: list[Call] = []

    def view(self, buffer: Buffer) -> View:
        """A new buffer, whole."""
        self.buffers.append(buffer)
        return View(len(self.buffers) - 1, 0, buffer.size)

    def constant(self, value: NDArray[Any], kind: Kind = Kind.CONSTANT) -> View:
        """A constant, or a table."""
        data = value.tobytes()
        return self.view(Buffer(kind, len(data), data))

    def work(self, elements: int) -> View:
        """Floats between calls."""
        return self.view(Buffer(Kind.WORK, 4 * elements))

    def named(self, kind: Kind, name: str, dtype: str, *shape: int) -> View:
        """An input, output or state, which begins with zeros."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self.view(Buffer(kind, size, bytes(size) if kind == Kind.STATE else b"", name, dtype, shape))

    def call(self, name: str, groups: int, lanes: int, body: str, **bound: Bound) -> None:
        """One dispatch of `groups` workgroups."""
        text = kernels.shader(lanes, {key: (kind, written) for key, (kind, _, written) in bound.items()}, body)
        number = self.kernels.setdefault(text, len(self.kernels))
        views = tuple(view for _, view, _ in bound.values())
        writes = tuple(at for at, (_, _, written) in enumerate(bound.values()) if written)
        self.calls.append(Call(number, (groups, 1, 1), views, writes, name))

    def table(self, matrix: Matrix, kind: Kind = Kind.CONSTANT) -> dict[str, Bound]:
        """A matrix's buffers, by the names that kernels know."""
        return {name: (TYPES[name], self.constant(words, kind), False) for name, words in matrix.parts.items()}


class _Decoder(_Making):
    """A decoder's plan in the making: its own buffers, and what it does."""

    def __init__(self, model: Model, positions: int, wide: bool) -> None:
        super().__init__(wide)
        z = model.size
        own, shared = z.heads * z.head, z.groups * z.head
        self.model, self.positions = model, positions
        self.given = self.named(Kind.INPUT, GIVEN, "int32", 1)
        self.settings: dict[str, Bound] = {
            name: (value.dtype.name[:-2], self.named(Kind.INPUT, name, value.dtype.name, 1), False)
            for name, value in SETTINGS.items()
        }
        self.token, self.position = (self.named(Kind.STATE, name, "int32", 1) for name in STATE[:2])
        self.keys = self.named(Kind.STATE, STATE[2], "float32", z.layers, z.groups, z.head, positions)
        self.values = self.named(Kind.STATE, STATE[3], "float32", z.layers, z.groups, positions, z.head)
        self.chosen, self.left = (self.named(Kind.OUTPUT, name, "int32", 1) for name in (CHOSEN, LEFT))
        self.logits = self.named(Kind.OUTPUT, LOGITS, "float32", z.tokens)
        self.x, self.q = self.work(z.width), self.work(own)
        longest = max(z.width, own, z.hidden)
        self.v, self.sums = self.work(longest), self.work(longest // kernels.GROUP)
        self.many = self.work(max(own + 2 * shared, 2 * z.hidden))
        angle = np.arange(positions)[:, None] * model.frequencies
        self.angles = self.constant(np.stack([np.cos(angle), np.sin(angle)], -1).astype("<f4"), Kind.TABLE)

    def vector(self, kind: str) -> dict[str, Bound]:
        """The vector that the next product reads, to be written, its elements of this type."""
        return {"v": (kind, self.v, True), "sums": ("float", self.sums, True)}

    def matrices(self, layer: int, *names: str) -> list[Matrix]:
        """Matrices of a layer."""
        return [laid_out(self.model.matrix(f"blk.{layer}.{name}.weight")) for name in names]

    def product(
        self, name: str, matrix: Matrix, table: dict[str, Bound], out: View, first: int = 0, *, adds: bool = False
    ) -> None:
        """`out`, from an element on, = matrix * the vector; `adds` as for `products.product`."""
        rows = next(rows for rows in (ROWS, 1) if matrix.rows % (rows * LANES) == 0)
        body = product(matrix, rows, first, adds, self.wide)
        read: dict[str, Bound] = {
            "v": ("vec4" if self.wide else "float", self.v, False),
            "sums": ("vec2", self.sums, False),
        }
        self.call(name, matrix.rows // (rows * LANES), LANES, body, **table, **read, o=("float", out, True))

    def products(self, name: str, matrices: list[Matrix], out: View, *, adds: bool = False) -> None:
        """`out` = all matrices, one under the other, * the vector: neighbours of one form in one call."""
        first = 0
        for _, same in itertools.groupby(matrices, lambda one: (one.form, one.bits)):
            matrix = joined(list(same))
            self.product(name, matrix, self.table(matrix), out, first, adds=adds)
            first += matrix.rows

    def embed(self, parts: list[tuple[Matrix, dict[str, Bound]]]) -> None:
        """The token's row, of a table in parts."""
        given: dict[str, Bound] = {"given": ("int", self.given, False), "token": ("int", self.token, False)}
        first = 0
        for table, bound in parts:
            body = kernels.embed(table, first, self.model.size.tokens)
            self.call("embed", 1, table.columns // COLUMNS, body, **bound, **given, x=("float", self.x, True))
            first += table.rows

    def norm(self, name: str, tensor: str) -> None:
        """The vector from the residual one."""
        z, gain = self.model.size, self.constant(self.model.floats(tensor))
        body = kernels.norm(z.width, z.epsilon)
        read: dict[str, Bound] = {"x": ("vec4", self.x, False), "gain": ("vec4", gain, False)}
        self.call(name, 1, z.width // kernels.GROUP, body, **read, **self.vector("vec4"))

    def attention(self, layer: int) -> None:
        """Queries, keys and values, caches, and what heads take of them, added to the residual vector."""
        z, own = self.model.size, self.model.architecture
        self.norm(f"{layer} norm", f"blk.{layer}.attn_norm.weight")
        self.products(f"{layer} heads", self.matrices(layer, *BIASES), self.many)
        caches = (self.keys, self.values)
        keys, values = (View(one.buffer, layer * one.size // z.layers, one.size // z.layers) for one in caches)
        position: Bound = ("int", self.position, False)
        bound: dict[str, Bound] = {"qkv": ("float", self.many, False), "angles": ("vec2", self.angles, False)}
        if own.biased:
            biases = np.concatenate([self.model.floats(f"blk.{layer}.{name}.bias") for name in BIASES])
            bound["bias"] = ("float", self.constant(biases), False)
        if own.normed:
            gains = np.concatenate([self.model.floats(f"blk.{layer}.{name}.weight") for name in NORMS])
            bound["gains"] = ("float", self.constant(gains), False)
        bound |= {"q": ("float", self.q, True), "keys": ("float", keys, True), "values": ("float", values, True)}
        heads = z.heads // z.groups
        body = kernels.turn(heads, z.head, self.positions, own.apart, bound, z.epsilon)
        self.call(f"{layer} turn", z.groups, z.head // 2, body, position=position, **bound)
        bound = {"q": ("float", self.q, False), "keys": ("vec4", keys, False), "values": ("vec4", values, False)}
        body = kernels.attend(heads, z.head, self.positions)
        vector = self.vector("float")
        self.call(f"{layer} attend", z.heads, kernels.HEAD_LANES, body, position=position, **bound, **vector)
        self.products(f"{layer} out", self.matrices(layer, "attn_output"), self.x, adds=True)

    def dense(self, layer: int) -> None:
        """Gate, up and down, added to the residual vector."""
        hidden = self.model.size.hidden
        self.norm(f"{layer} dense norm", f"blk.{layer}.ffn_norm.weight")
        self.products(f"{layer} gate, up", self.matrices(layer, "ffn_gate", "ffn_up"), self.many)
        groups = hidden // kernels.GROUP
        lanes = next(lanes for lanes in (16, 8, 4) if groups % lanes == 0)
        both: Bound = ("vec4", self.many, False)
        self.call(f"{layer} gate", groups // lanes, lanes, kernels.gate(hidden), both=both, **self.vector("vec4"))
        self.products(f"{layer} down", self.matrices(layer, "ffn_down"), self.x, adds=True)

    def begin(self, before: Reference) -> None:
        """Let the state begin after some tokens."""
        room = [(0, 0), (0, 0), (0, self.positions - before.position), (0, 0)]
        keys, values = np.pad(before.keys, room).swapaxes(2, 3), np.pad(before.values, room)
        position = np.array([before.position], "<i4")
        for view, value in ((self.position, position), (self.keys, keys), (self.values, values)):
            self.buffers[view.buffer] = replace(self.buffers[view.buffer], data=value.tobytes())

    def choose(self) -> None:
        """The token, and what counts positions."""
        tokens, settings = self.model.size.tokens, self.settings
        logits, least = ("float", self.logits, False), self.work(1)
        bound: dict[str, Bound] = {name: settings[name] for name in (TEMPERATURE, TOP_K, TOP_P)}
        bound |= {"logits": logits, "least": ("uint", least, True)}
        self.call("limit", 1, kernels.CHOOSE_LANES, kernels.limit(tokens), **bound)
        bound = {name: settings[name] for name in (TEMPERATURE, SEED)}
        bound |= {"logits": logits, "least": ("uint", least, False)}
        written = {"chosen": self.chosen, "token": self.token, "position": self.position, "left": self.left}
        bound |= {name: ("int", view, True) for name, view in written.items()}
        self.call("choose", 1, kernels.CHOOSE_LANES, kernels.choose(tokens, self.positions), **bound)


def plan(model: Model, positions: int, *, wide: bool = False, before: Reference | None = None) -> Plan:
    """The plan of a decoder.

    Args:
        model: the decoder.
        positions: of its caches: a multiple of 256.
        wide: products load the vector by four (`Family.loads_vectors`).
        before: tokens with which the state begins; None: none.
    """
    m = _Decoder(model, positions, wide)
    parts = [
        (matrix, m.table(matrix, Kind.TABLE)) for matrix in parted(laid_out(model.matrix("token_embd.weight")))
    ]
    m.embed(parts)
    for layer in range(model.size.layers):
        m.attention(layer)
        m.dense(layer)
    m.norm("last norm", "output_norm.weight")
    if model.output != "token_embd.weight":
        matrix = laid_out(model.matrix(model.output))
        parts = [(matrix, m.table(matrix))]
    first = 0
    for matrix, table in parts:
        m.product("head", matrix, table, m.logits, first)
        first += matrix.rows
    m.choose()
    if before is not None:
        m.begin(before)
    return Plan(m.buffers, list(m.kernels), m.calls)
