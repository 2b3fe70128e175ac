# SPDX-License-Identifier: BSD-2-Clause
"""Makes torch_operators.pt2 and torch_operators.npz: a program of most operators that networks of PyTorch's have,
and what PyTorch computes of each.

`python tests/support/torch_operators.py FOLDER`, by a Python that has PyTorch (2.14 was it). The archive is packed
again, since PyTorch does not compress, and without the inputs of the export, which are a pickle.
"""

from __future__ import annotations

import math
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

torch.manual_seed(20261125)
# x: a picture; v: a sequence; m: a matrix; p: a positive matrix; i, j: whole numbers; b: truth values
INPUTS = {
    "x": torch.randn(1, 8, 6, 5),
    "v": torch.randn(2, 7, 8),
    "m": torch.randn(4, 6),
    "p": torch.rand(4, 6) + 0.1,
    "i": torch.randint(-9, 9, (4, 6)),
    "j": torch.randint(0, 4, (3,)),
    "b": torch.rand(4, 6) > 0.5,
}
Operators = dict[str, Callable[[dict[str, Tensor]], Any]]
POSITIVE = """
    cos cosh erf exp expm1 log log10 log1p log2 reciprocal rsqrt sigmoid sin sinh sqrt square tan tanh asinh atan
"""
BELOW_ONE = "acos asin atanh"
OF_BOTH_SIGNS = "neg abs sign trunc ceil floor frac round"
ACTIVATIONS = """
    relu relu6 leaky_relu elu selu celu gelu silu mish hardswish hardsigmoid hardtanh softplus logsigmoid softsign
    tanhshrink softshrink hardshrink glu
"""


def _each(names: str, of: Any, given: str, by: float) -> Operators:
    def one(name: str) -> Callable[[dict[str, Tensor]], Any]:
        return lambda t: getattr(of, name)(t[given] * by)

    return {name: one(name) for name in names.split()}


def _written(t: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """Through views of several kinds; older views see it, and so does the whole."""
    whole = t["m"].clone()
    turned, row = whole.T, whole[1]
    whole[:, 1:3] = 7
    whole[0] += t["p"][1]
    turned[2, ::2].mul_(2)
    left, right = whole.chunk(2, 1)
    left.relu_()
    right.unsqueeze(0)[:, 3].fill_(-1)
    whole.view(2, 2, 6).select(0, 1).copy_(t["p"][:2])
    return whole, turned, row, left, right


ELEMENTS: Operators = {
    **_each(POSITIVE, torch, "p", 1.5),
    **_each(BELOW_ONE, torch, "p", 0.8),
    **_each(OF_BOTH_SIGNS, torch, "m", 3),
    **_each(ACTIVATIONS, F, "m", 3),
    "acosh": lambda t: torch.acosh(t["p"] + 1),
    "gelu by tanh": lambda t: F.gelu(t["m"], approximate="tanh"),
    "threshold": lambda t: F.threshold(t["m"], 0.1, 20.0),
    "softplus of beta": lambda t: F.softplus(t["m"], beta=2),
    "add": lambda t: (t["m"] + t["p"], t["m"] + 2, t["i"] + 1, t["i"] + 0.5, t["i"] + t["m"]),
    "add alpha": lambda t: torch.add(t["m"], t["p"], alpha=3),
    "sub": lambda t: (t["m"] - t["p"], 2 - t["m"], torch.sub(t["m"], t["p"], alpha=2)),
    "mul": lambda t: (t["m"] * t["p"], t["i"] * 2, t["b"] * t["m"], t["b"] * t["b"]),
    "div": lambda t: (t["m"] / t["p"], t["i"] / 2, 1 / t["p"], t["m"] / t["i"].clamp(min=1)),
    "div floor": lambda t: (t["i"] // 3, t["i"] // -4, t["m"] // 0.7, torch.div(t["i"], 4, rounding_mode="trunc")),
    "div trunc": lambda t: torch.div(t["m"], 0.7, rounding_mode="trunc"),
    "remainder": lambda t: (t["i"] % 4, t["m"] % 0.7, torch.fmod(t["m"], 0.7), torch.remainder(t["i"], -5)),
    "pow": lambda t: (t["p"] ** 1.5, t["m"] ** 2, t["m"] ** 3, 2 ** t["m"], t["p"] ** t["m"], t["i"] ** 2),
    "extremes": lambda t: (
        torch.maximum(t["m"], t["p"]),
        torch.minimum(t["m"], t["p"]),
        torch.max(t["m"], t["p"]),
    ),
    "clamp": lambda t: (t["m"].clamp(-0.5, 0.5), t["m"].clamp(min=0), t["i"].clamp(max=3), t["m"].clamp_min(0.1)),
    "clamp by tensors": lambda t: torch.clamp(t["m"], -t["p"], t["p"]),
    "compared": lambda t: (
        t["m"] > t["p"],
        t["m"] >= 0,
        t["i"] == 3,
        t["i"] != t["i"].T.reshape(4, 6),
        t["m"] < t["i"],
    ),
    "compared to halves": lambda t: (t["i"] > 0.5, t["i"] <= 2, t["b"] == True),  # noqa: E712
    "logic": lambda t: (
        t["b"] & (t["m"] > 0),
        t["b"] | (t["m"] > 0),
        ~t["b"],
        torch.logical_xor(t["b"], t["i"] > 0),
    ),
    "logic of numbers": lambda t: (torch.logical_and(t["i"], t["m"]), torch.logical_not(t["i"])),
    "where": lambda t: (
        torch.where(t["b"], t["m"], 0.0),
        torch.where(t["b"], t["m"], t["p"]),
        torch.where(t["b"], 1, 2),
    ),
    "masked fill": lambda t: (t["m"].masked_fill(t["b"], -7.0), t["m"].masked_fill(t["b"], -math.inf).softmax(0)),
    "nan": lambda t: (torch.isnan(t["m"]), torch.isinf(t["m"] / 0.0)),
    "addcmul": lambda t: (torch.addcmul(t["m"], t["p"], t["p"], value=2), torch.addcdiv(t["m"], t["m"], t["p"])),
    "lerp": lambda t: (torch.lerp(t["m"], t["p"], 0.3), torch.lerp(t["m"], t["p"], t["p"])),
    "types": lambda t: (t["m"].to(torch.int32), t["i"].float(), t["b"].to(torch.int64), t["m"].half().float()),
    "written through views": _written,
    "in place": lambda t: (t["m"] + 1).mul_(2).relu_().add_(t["p"]),
}
SHAPES: Operators = {
    "views": lambda t: (
        t["x"].view(8, -1),
        t["x"].reshape(2, 4, 30),
        t["x"].flatten(1),
        t["m"].unflatten(1, (2, 3)),
    ),
    "squeeze": lambda t: (t["x"].squeeze(0), t["m"].unsqueeze(1), t["m"][None, ..., None]),
    "permute": lambda t: (t["x"].permute(0, 2, 3, 1), t["x"].transpose(1, -1), t["m"].T, t["v"].mT),
    "movedim": lambda t: (t["v"].movedim(0, 2), t["v"].movedim((0, 1), (2, 0)), t["v"].swapaxes(0, 1)),
    "expand": lambda t: (t["m"].unsqueeze(0).expand(3, -1, -1), t["m"].broadcast_to(2, 4, 6)),
    "repeat": lambda t: (t["m"].repeat(2, 1, 3), torch.tile(t["m"], (2,)), t["m"].repeat_interleave(2, dim=1)),
    "cat": lambda t: (
        torch.cat([t["m"], t["p"]], -1),
        torch.stack([t["m"], t["p"]], 1),
        torch.cat([t["m"], t["i"]]),
    ),
    "split": lambda t: (
        *t["v"].chunk(3, 1),
        *t["v"].split(3, dim=1),
        *t["m"].split([1, 5], dim=1),
        *t["j"].unbind(),
    ),
    "slices": lambda t: (
        t["m"][1:],
        t["m"][:, ::2],
        t["m"][-1],
        t["m"][..., 1:-1],
        t["v"].narrow(1, 2, 3),
        t["x"][:, 1],
    ),
    "gathered": lambda t: (
        t["m"].index_select(0, t["j"]),
        torch.gather(t["m"], 1, t["i"].abs() % 6),
        t["m"][t["j"]],
    ),
    "indexed": lambda t: (
        t["m"][:, t["j"]],
        t["m"][t["j"], t["j"]],
        t["v"][:, t["j"], t["j"]],
        t["x"][:, t["j"], :, t["j"]],
    ),
    "scattered": lambda t: t["m"].scatter(1, t["i"].abs() % 1, t["p"]),
    "pad": lambda t: (
        F.pad(t["x"], (1, 2, 0, 1)),
        F.pad(t["m"], (1, -1), value=3.0),
        F.pad(t["x"], (1, 1, 2, 2), "reflect"),
    ),
    "pad otherwise": lambda t: (F.pad(t["x"], (2, 1, 0, 1), "replicate"), F.pad(t["x"], (1, 2, 0, 1), "circular")),
    "roll": lambda t: (
        t["m"].roll(2, 1),
        t["m"].roll(3),
        t["v"].roll((1, -2), (0, 1)),
        t["m"].flip(1),
        t["v"].flip(0, 2),
    ),
    "pixels": lambda t: (
        F.pixel_shuffle(t["x"], 2),
        F.pixel_unshuffle(t["x"][..., :4], 2),
        F.channel_shuffle(t["x"], 4),
    ),
    "triangles": lambda t: (t["m"].tril(), t["m"].triu(1), t["m"].tril(-1), t["v"].triu(-2)),
    "made": lambda t: (
        torch.zeros_like(t["m"]),
        t["m"].new_ones(3),
        torch.full((2, 2), 3.5),
        torch.arange(1, 7, 2),
    ),
    "made more": lambda t: (
        torch.linspace(0, 1, 5),
        torch.eye(3),
        torch.full_like(t["i"], 4),
        torch.arange(3) * 0.5,
    ),
    "meshgrid": lambda t: (
        *torch.meshgrid(torch.arange(2), t["j"], indexing="ij"),
        *torch.meshgrid(torch.arange(2), t["j"], indexing="xy"),
    ),
    "one hot": lambda t: F.one_hot(t["j"], 4),
    "written": lambda t: torch.slice_scatter(t["m"], t["p"][:, :2], 1, 2, 4),
    "written once": lambda t: torch.select_scatter(t["m"], t["p"][0], 0, 2),
}
REDUCTIONS: Operators = {
    "sums": lambda t: (
        t["m"].sum(),
        t["m"].sum(1),
        t["v"].mean((0, 2), keepdim=True),
        t["p"].prod(1),
        t["i"].sum(0),
    ),
    "extreme": lambda t: (t["m"].amax(1), t["v"].amin((1, 2)), t["m"].max(), t["m"].max(1).values, *t["m"].min(0)),
    "place": lambda t: (t["m"].argmax(), t["m"].argmax(1), t["m"].argmin(0, keepdim=True)),
    "truth": lambda t: (t["b"].any(), t["b"].all(1), (t["i"] > 99).any(0)),
    "variance": lambda t: (
        t["m"].var(),
        t["m"].std(1),
        t["m"].var(1, unbiased=False),
        *torch.var_mean(t["v"], (0, 1)),
    ),
    "norms": lambda t: (
        t["m"].norm(),
        t["m"].norm(1, 1),
        torch.linalg.vector_norm(t["m"], math.inf),
        F.normalize(t["m"]),
    ),
    "softmax": lambda t: (t["m"].softmax(1), F.log_softmax(t["v"], 1), t["m"].logsumexp(1), F.softmin(t["m"], 0)),
    "cumsum": lambda t: (t["m"].cumsum(1), t["i"].cumsum(0)),
    "sorted": lambda t: (*t["m"].topk(2), *t["m"].sort(0, descending=True), t["m"].argsort(1)),
}


class Layers(nn.Module):  # type: ignore[misc]
    """Layers with weights."""

    def __init__(self) -> None:
        super().__init__()
        self.on_picture = nn.ModuleList(
            [
                nn.Conv2d(8, 4, 3, stride=2, padding=(1, 0), dilation=(1, 2)),
                nn.Conv2d(8, 8, 3, padding="same", groups=4, bias=False),
                nn.Conv2d(8, 4, 3, padding=1, padding_mode="reflect"),
                nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
                nn.BatchNorm2d(8),
                nn.BatchNorm2d(8, affine=False),
                nn.GroupNorm(2, 8),
                nn.InstanceNorm2d(8, affine=True),
                nn.LayerNorm([6, 5]),
                nn.PReLU(8),
                nn.MaxPool2d(3, 2, 1),
                nn.MaxPool2d(2, ceil_mode=True),
                nn.AvgPool2d(3, 2, 1, count_include_pad=False),
                nn.AvgPool2d(2, divisor_override=3),
                nn.AdaptiveAvgPool2d(1),
                nn.AdaptiveAvgPool2d((3, 5)),
                nn.AdaptiveAvgPool2d((4, 3)),
                nn.AdaptiveMaxPool2d(2),
                nn.Upsample(scale_factor=2),
                nn.Upsample(size=(9, 7), mode="nearest"),
                nn.Upsample(size=(9, 7), mode="nearest-exact"),
                nn.Upsample(scale_factor=1.5, mode="bilinear"),
                nn.Upsample(size=(9, 11), mode="bilinear", align_corners=True),
                nn.Upsample(size=(9, 11), mode="bicubic"),
                nn.Unfold(2, stride=2, padding=1),
                nn.ZeroPad2d(1),
                nn.Dropout(0.5),
            ]
        )
        self.on_sequence = nn.ModuleList(
            [
                nn.Linear(8, 5),
                nn.Linear(8, 5, bias=False),
                nn.LayerNorm(8),
                nn.RMSNorm(8),
                nn.Conv1d(7, 3, 3),
                nn.AvgPool1d(2),
                nn.AdaptiveAvgPool1d(1),
                nn.GRU(8, 6, num_layers=2, bidirectional=True, batch_first=True),
                nn.GRU(8, 6, bias=False),
                nn.LSTM(8, 6, num_layers=2, batch_first=True),
                nn.LSTM(8, 6, bidirectional=True),
                nn.RNN(8, 6, nonlinearity="relu", batch_first=True),
                nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True),
            ]
        )
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.table = nn.Embedding(4, 3)
        self.lstm_cell = nn.LSTMCell(6, 5)
        self.gru_cell = nn.GRUCell(6, 5)
        self.rnn_cell = nn.RNNCell(6, 5)

    def forward(self, t: dict[str, Tensor]) -> dict[str, Any]:
        found = {f"{type(layer).__name__} {at}": layer(t["x"]) for at, layer in enumerate(self.on_picture)}
        found |= {
            f"{type(layer).__name__} of steps {at}": layer(t["v"]) for at, layer in enumerate(self.on_sequence)
        }
        x, m, v = t["x"], t["m"], t["v"]
        q = v.view(2, 7, 2, 4).transpose(1, 2)
        grid = torch.stack([F.tanh(x[:, 0]), F.tanh(x[:, 1])], -1)
        return found | {
            "attention": self.attention(v, v, v, need_weights=False)[0],
            "table": self.table(t["j"]),
            "cells": (self.lstm_cell(m), self.gru_cell(m), self.rnn_cell(m)),
            "products": (
                m @ m.T,
                torch.bmm(v, v.mT),
                m @ v[0, :6],
                torch.addmm(m[:, :4], m, m.T),
                m @ m[0],
                v @ v.mT,
            ),
            "einsum": torch.einsum("bij,bkj->bik", v, v),
            "attended": F.scaled_dot_product_attention(q, q, q),
            "attended causally": F.scaled_dot_product_attention(q, q, q, is_causal=True),
            "attended with a mask": F.scaled_dot_product_attention(
                q, q, q, attn_mask=v[:, None, :, :7], scale=0.2
            ),
            "sampled": F.grid_sample(x, grid, align_corners=False),
            "sampled at corners": F.grid_sample(
                x, grid, mode="nearest", padding_mode="border", align_corners=True
            ),
            "cosine": F.cosine_similarity(m, t["p"]),
        }


class Operators_(nn.Module):  # type: ignore[misc]
    """All of them; returns what each makes, one after the other, and notes how many tensors each has made."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = Layers()
        self.made: list[str] = []

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        t = dict(zip(INPUTS, given, strict=True))
        found = {name: make(t) for table in (ELEMENTS, SHAPES, REDUCTIONS) for name, make in table.items()}
        found |= self.layers(t)
        flat = [(name, tensor) for name, value in found.items() for tensor in _tensors(value)]
        self.made = [name for name, _ in flat]
        return tuple(tensor for _, tensor in flat)


def _tensors(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [tensor for item in value for tensor in _tensors(item)]


def main(folder: Path) -> None:
    """Write both files."""
    net = Operators_().eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.2, 0.2)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.no_grad():
        expected = net(*INPUTS.values())
        names = list(net.made)
        program = torch.export.export(net, tuple(INPUTS.values()))
    path = folder / "torch_operators.pt2"
    torch.export.save(program, path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if "sample_inputs" not in name}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_LZMA)
    arrays: dict[str, Any] = {f"in {name}": value.numpy() for name, value in INPUTS.items()}
    arrays |= {f"{at} {name}": value.numpy() for at, (name, value) in enumerate(zip(names, expected, strict=True))}
    np.savez_compressed(folder / "torch_operators.npz", **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
