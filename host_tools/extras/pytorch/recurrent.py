# SPDX-License-Identifier: BSD-2-Clause
"""PyTorch's recurrent layers as ONNX's, one for each of their layers. Argument names as in arithmetic.py.

ONNX orders the gates otherwise (LSTM: i o f c, PyTorch: i f g o; GRU: z r h, PyTorch: r z n), and keeps directions
apart where PyTorch joins them. Weights must be constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from host_tools.extras.pytorch.graph import aten
from host_tools.record.onnx_graph import Graph, Name, Tensor
from host_tools.record.preflight import NetworkError

ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


def _gates(g: Graph, kind: str, tensors: Sequence[Tensor]) -> Name:
    """A weight of each direction, its gates in ONNX's order: (directions, gates * hidden, ..)."""
    order = ORDER[kind]
    hidden = tensors[0].shape[0] // len(order)
    rows = g.constant(np.concatenate([np.arange(hidden) + at * hidden for at in order]))
    parts = [g.reshaped(g.node("Gather", tensor.name, rows), (1, *tensor.shape)) for tensor in tensors]
    return g.node("Concat", *parts, axis=0)


def _recurrent(
    kind: str,
    activation: str,
    g: Graph,
    x: Tensor,
    hx: Tensor | Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> list[Name]:
    if train and dropout:
        raise NetworkError(f"{kind} of a training step: export the network in eval()")
    if len(x.shape) != 3:
        raise NetworkError(f"{kind} without a batch dimension: unsqueeze its input")
    states = [hx] if isinstance(hx, Tensor) else list(hx)
    directions = 2 if bidirectional else 1
    hidden = states[0].shape[2]
    if len(params) != num_layers * directions * (4 if has_biases else 2):
        raise NetworkError(f"{kind} with projections")
    batch, steps = (x.shape[0], x.shape[1]) if batch_first else (x.shape[1], x.shape[0])
    name = g.node("Transpose", x.name, perm=[1, 0, 2]) if batch_first else x.name
    last: list[list[Name]] = [[] for _ in states]
    per_direction = len(params) // (num_layers * directions)
    for layer in range(num_layers):
        first = layer * directions * per_direction
        sets = [params[first + at * per_direction :][:per_direction] for at in range(directions)]
        w, r = (_gates(g, kind, [weights[at] for weights in sets]) for at in (0, 1))
        b = None
        if has_biases:
            b = g.node("Concat", *(_gates(g, kind, [weights[at] for weights in sets]) for at in (2, 3)), axis=1)
        rows = [g.constant([at]) for at in (layer * directions, (layer + 1) * directions, 0)]
        begun = [g.node("Slice", state.name, *rows) for state in states]
        all_steps, *ends = g.nodes_of(
            kind,
            1 + len(states),
            *(name, w, r, b, None, *begun),
            hidden_size=hidden,
            direction="bidirectional" if bidirectional else "forward",
            linear_before_reset=1 if kind == "GRU" else None,
            activations=[activation] * directions if kind == "RNN" else None,
        )
        # (steps, directions, batch, hidden) -> (steps, batch, directions * hidden)
        name = g.reshaped(g.node("Transpose", all_steps, perm=[0, 2, 1, 3]), [steps, batch, directions * hidden])
        for of, end in zip(last, ends, strict=True):
            of.append(end)
    made = g.node("Transpose", name, perm=[1, 0, 2]) if batch_first else name
    return [made, *(g.node("Concat", *ends, axis=0) for ends in last)]


aten("lstm")(partial(_recurrent, "LSTM", ""))
aten("gru")(partial(_recurrent, "GRU", ""))
aten("rnn_tanh")(partial(_recurrent, "RNN", "Tanh"))
aten("rnn_relu")(partial(_recurrent, "RNN", "Relu"))


def _cell(
    kind: str,
    activation: str,
    g: Graph,
    x: Tensor,
    hx: Tensor | Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> list[Name]:
    """One step: a layer of one."""
    states = [hx] if isinstance(hx, Tensor) else list(hx)
    b = g.node("Concat", *(_gates(g, kind, [bias]) for bias in (b_ih, b_hh)), axis=1) if b_ih and b_hh else None
    shape = (1, *states[0].shape)
    _, *ends = g.nodes_of(
        kind,
        1 + len(states),
        g.reshaped(x.name, (1, *x.shape)),
        *(_gates(g, kind, [weight]) for weight in (w_ih, w_hh)),
        *(b, None, *(g.reshaped(state.name, shape) for state in states)),
        hidden_size=states[0].shape[-1],
        linear_before_reset=1 if kind == "GRU" else None,
        activations=[activation] if kind == "RNN" else None,
    )
    return [g.reshaped(end, states[0].shape) for end in ends]


aten("lstm_cell")(partial(_cell, "LSTM", ""))
aten("gru_cell")(partial(_cell, "GRU", ""))
aten("rnn_tanh_cell")(partial(_cell, "RNN", "Tanh"))
aten("rnn_relu_cell")(partial(_cell, "RNN", "Relu"))
