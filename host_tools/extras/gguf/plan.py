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
from host_tools.extras.gguf.finishes import Add, Gate, Heads, Norm, Store
from host_tools.extras.gguf.model import BIASES, NORMS, Model
from host_tools.extras.gguf.multiply import Finish, Tile, product, tile_of, vector
from host_tools.extras.gguf.products import LANES, TYPES, Matrix, joined, laid_out, parted
from host_tools.extras.gguf.reference import Reference
from host_tools.families.family import part_of
from host_tools.families.kernel_costs import KernelCosts
from host_tools.families.speed import Speed
from host_tools.record.compiled.layout import ALIGNMENT
from host_tools.record.compiled.plan import Buffer, Call, Kind, Plan, View
from host_tools.record.preflight import NetworkError

# Inputs that say how to choose, and their values where the likeliest token is chosen.
SETTINGS = {name: np.float32(one) if isinstance(one, float) else np.int32(one) for name, one in LIKELIEST.items()}
ROWS = 4  # of a product that a lane has at most, where the GPU's family does not say
LOGITS = "logits"
STATE = ("token", "position", "keys", "values")
Bound = tuple[str, View, bool]  # type of the elements in GLSL, what it is, whether it is written


class _Making:
    """Buffers, kernels and calls in the making."""

    def __init__(self) -> None:
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

    def table(
        self, matrix: Matrix, kind: Kind = Kind.CONSTANT, more: NDArray[np.float32] | None = None
    ) -> dict[str, Bound]:
        """A matrix's parts of a buffer, by the names that kernels know; `more` as for `Matrix.buffers`."""
        parts = {name: words.tobytes() for name, words in matrix.buffers(more).items()}
        data = b"".join(part + bytes(-len(part) % ALIGNMENT) for part in parts.values())
        buffer, at, found = self.view(Buffer(kind, len(data), data)).buffer, 0, {}
        for name, part in parts.items():
            found[name] = TYPES[name], View(buffer, at, len(part)), False
            at += len(part) + -len(part) % ALIGNMENT
        return found


class _Decoder(_Making):
    """A decoder's plan in the making: its own buffers, and what it does."""

    def __init__(self, model: Model, positions: int, costs: KernelCosts | None) -> None:
        super().__init__()
        z = model.size
        own = z.heads * z.head
        self.model, self.positions = model, positions
        self.fast = (ROWS, 1) if costs is None else (costs.rows, costs.units)
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
        # A job reads one residual vector and writes the other: lanes may compute the same row.
        self.x, self.more, self.q = self.work(z.width), self.work(z.width), self.work(own)
        self.norm = Norm(z.width, z.epsilon)
        self.next, self.mixed, self.hidden = (self.work(vector(size)) for size in (z.width, own, z.hidden))
        angle = np.arange(positions)[:, None] * model.frequencies
        self.angles = self.constant(np.stack([np.cos(angle), np.sin(angle)], -1).astype("<f4"), Kind.TABLE)

    def matrices(self, layer: int, *names: str) -> list[Matrix]:
        """Matrices of a layer."""
        return [laid_out(self.model.matrix(f"blk.{layer}.{name}.weight")) for name in names]

    def product(
        self,
        name: str,
        matrix: Matrix,
        table: dict[str, Bound],
        tile: Tile,
        v: View,
        finish: Finish,
        **bound: Bound,
    ) -> None:
        """A matrix times a vector, and what is made of it."""
        body = product(matrix, tile, finish)
        groups = matrix.rows // tile.matrices // tile.count
        self.call(name, groups, tile.lanes, body, **table, v=("vec4", v, False), **bound)

    def embed(self, parts: list[tuple[Matrix, dict[str, Bound]]]) -> None:
        """The token's row, of a table in parts."""
        gain = self.constant(self.model.floats("blk.0.attn_norm.weight"))
        read: dict[str, Bound] = {
            "given": ("int", self.given, False),
            "token": ("int", self.token, False),
            "gain": ("float", gain, False),
        }
        made: dict[str, Bound] = {"x": ("float", self.x, True), "made": ("float", self.next, True)}
        first = 0
        for table, bound in parts:
            body = kernels.embed(table, first, self.model.size.tokens)
            self.call("embed", 1, table.columns // COLUMNS, body, **bound, **read, **made)
            first += table.rows

    def add(self, name: str, tensor: str, v: View, gain: str) -> None:
        """A matrix times a vector, added to the residual one; and what the next norm, of that gain, has of it."""
        matrix = laid_out(self.model.matrix(tensor))
        table = self.table(matrix, more=self.model.floats(gain))
        bound = {
            "x": ("float", self.x, False),
            "more": ("float", self.more, True),
            "made": ("float", self.next, True),
        }
        finish = Add(matrix.rows, matrix.more)
        self.product(name, matrix, table, tile_of(matrix, *self.fast), v, finish, **bound)
        self.x, self.more = self.more, self.x

    def attention(self, layer: int) -> None:
        """Queries, keys and values, caches, and what heads take of them, added to the residual vector."""
        z = self.model.size
        caches = (self.keys, self.values)
        keys, values = (View(one.buffer, layer * one.size // z.layers, one.size // z.layers) for one in caches)
        self.heads(layer, keys, values)
        bound = {"q": ("vec4", self.q, False), "keys": ("vec4", keys, False), "values": ("vec4", values, False)}
        heads = z.heads // z.groups
        body = kernels.attend(z.groups, heads, z.head, self.positions)
        groups = z.heads // kernels.together(heads, z.head, self.positions)
        bound |= {"position": ("int", self.position, False), "made": ("float", self.mixed, True)}
        self.call(f"{layer} attend", groups, kernels.HEAD_LANES, body, **bound)
        self.add(f"{layer} out", f"blk.{layer}.attn_output.weight", self.mixed, f"blk.{layer}.ffn_norm.weight")

    def heads(self, layer: int, keys: View, values: View) -> None:
        """Queries, keys and values, turned and put where they belong: matrices of one form in one call."""
        z, own, first = self.model.size, self.model.architecture, 0
        bound: dict[str, Bound] = {
            "position": ("int", self.position, False),
            "angles": ("vec2", self.angles, False),
        }
        bound |= {"q": ("float", self.q, True), "keys": ("float", keys, True), "values": ("float", values, True)}
        names = [f"blk.{layer}.{name}" for name in (BIASES if own.biased else ())]
        more = [self.model.floats(f"{name}.bias") for name in names]
        more += [self.model.floats(f"blk.{layer}.{name}.weight") for name in (NORMS if own.normed else ())]
        for _, same in itertools.groupby(self.matrices(layer, *BIASES), lambda one: (one.form, one.bits)):
            matrix = joined(list(same))
            tile = tile_of(matrix, *self.fast, whole=max(z.head, LANES), within=z.groups * z.head)
            # The position decides where this job writes, so that it may access all of its buffer objects: its
            # weights lie apart from those of others, which devices may then read later.
            table = self.table(matrix, Kind.TABLE, np.concatenate(more) if more else None)
            biases, gains = (matrix.more if has else -1 for has in (own.biased, own.normed))
            sizes = (z.heads, z.groups, z.head, self.positions)
            finish = Heads(self.norm, first, *sizes, own.apart, biases, gains)
            self.product(f"{layer} heads", matrix, table, tile, self.next, finish, **bound)
            first += matrix.rows

    def dense(self, layer: int) -> None:
        """Gate, up and down, added to the residual vector."""
        names = ("ffn_gate", "ffn_up")
        gate, up = self.matrices(layer, *names)
        if (gate.form, gate.bits) != (up.form, up.bits):
            found = " and ".join(self.model.head.tensors[f"blk.{layer}.{name}.weight"].kind for name in names)
            raise NetworkError(f"tensors blk.{layer}.ffn_gate.weight and ffn_up: expected one type, found {found}")
        matrix = joined([gate, up])
        tile = tile_of(matrix, *self.fast, matrices=2)
        finish = Gate(self.norm, gate.rows)
        made: Bound = ("float", self.hidden, True)
        self.product(f"{layer} gate, up", matrix, self.table(matrix), tile, self.next, finish, made=made)
        layers = self.model.size.layers
        gain = f"blk.{layer + 1}.attn_norm.weight" if layer + 1 < layers else "output_norm.weight"
        self.add(f"{layer} down", f"blk.{layer}.ffn_down.weight", self.hidden, gain)

    def head(self, parts: list[tuple[Matrix, dict[str, Bound]]]) -> None:
        """The logits, of a table in parts."""
        first = 0
        for matrix, table in parts:
            begin, logits = first, self.logits
            if 4 * first % ALIGNMENT == 0:  # parts of one size share a kernel
                begin, logits = 0, View(logits.buffer, 4 * first, 4 * matrix.rows)
            # Without splits, a row's sum is the same to the bit in whichever part it is.
            tile, o = replace(tile_of(matrix, *self.fast), splits=1), ("float", logits, True)
            self.product("head", matrix, table, tile, self.next, Store(self.norm, begin), o=o)
            first += matrix.rows

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


def plan(model: Model, positions: int, *, gpu: str = "", before: Reference | None = None) -> Plan:
    """The plan of a decoder.

    Args:
        model: the decoder.
        positions: of its caches: a multiple of 256.
        gpu: on which it is to be fast; "": any.
        before: tokens with which the state begins; None: none.
    """
    speed = part_of(gpu, Speed) if gpu else None
    m = _Decoder(model, positions, None if speed is None else speed.kernel_costs)
    parts = [
        (matrix, m.table(matrix, Kind.TABLE)) for matrix in parted(laid_out(model.matrix("token_embd.weight")))
    ]
    m.embed(parts)
    for layer in range(model.size.layers):
        m.attention(layer)
        m.dense(layer)
    if model.output != "token_embd.weight":
        matrix = laid_out(model.matrix(model.output))
        parts = [(matrix, m.table(matrix))]
    m.head(parts)
    m.choose()
    if before is not None:
        m.begin(before)
    return Plan(m.buffers, list(m.kernels), m.calls)
