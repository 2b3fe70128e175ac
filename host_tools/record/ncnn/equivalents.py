# SPDX-License-Identifier: BSD-2-Clause
"""What can be recorded in place of layers that are refused: layers that compute the same, or another compiler.

Each row is tested: both layers give the same numbers on ncnn's CPU, and what is named is recorded.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

COMPILER = "--compiler tinygrad"


@dataclass(frozen=True)
class Equivalent:
    """What computes the same.

    Attributes:
        layer: of ncnn, which has code for GPUs.
        said: how a program of PyTorch's says it, so that the layer comes of it.
    """

    layer: str
    said: str

    def __str__(self) -> str:
        return f"{self.layer} computes the same and is recorded: {self.said}"


EQUIVALENTS: Mapping[str, Equivalent] = {
    "BNLL": Equivalent("Softplus", "torch.nn.Softplus"),
    "Bias": Equivalent("Scale", "a scale of ones with a bias"),
    "ConvolutionDepthWise1D": Equivalent("ConvolutionDepthWise", "torch.nn.Conv2d on a height of 1"),
    "Deconvolution1D": Equivalent("Deconvolution", "torch.nn.ConvTranspose2d on a height of 1"),
    "DeconvolutionDepthWise1D": Equivalent(
        "DeconvolutionDepthWise", "torch.nn.ConvTranspose2d with groups, on a height of 1"
    ),
    "Exp": Equivalent("UnaryOp", "torch.exp"),
    "Log": Equivalent("UnaryOp", "torch.log"),
    "MVN": Equivalent("InstanceNorm", "torch.nn.InstanceNorm2d"),
    "MatMul": Equivalent(
        "SDPA", "attention as torch.nn.functional.scaled_dot_product_attention, instead of softmax(q @ k.T) @ v"
    ),
    "Pooling1D": Equivalent("Pooling", "torch.nn.MaxPool2d or AvgPool2d on a height of 1"),
    "Power": Equivalent("BinaryOp", "torch.pow"),
}
# Operators of ONNX that tinygrad compiles, where no layer of ncnn is.
BY_TINYGRAD: Mapping[str, str] = {
    "Convolution3D": "Conv",
    "ConvolutionDepthWise3D": "Conv",
    "Deconvolution3D": "ConvTranspose",
    "DeconvolutionDepthWise3D": "ConvTranspose",
    "DeformableConv2D": "DeformConv",
    "Einsum": "Einsum",
    "Embed": "Gather",
    "Fold": "Col2Im",
    "GRU": "GRU",
    "GridSample": "GridSample",
    "LSTM": "LSTM",
    "Pooling3D": "MaxPool",
    "RNN": "RNN",
    "ROIAlign": "RoiAlign",
    "Spectrogram": "STFT",
    "Threshold": "Greater",
}


def instead_of(kind: str) -> str:
    """What to do about a type of layer that is refused; "": nothing is known."""
    if kind in EQUIVALENTS:
        return str(EQUIVALENTS[kind])
    if kind in BY_TINYGRAD:
        return f"{BY_TINYGRAD[kind]} of ONNX is compiled by record onnx or pytorch with {COMPILER}"
    return ""


def hint(kind: str) -> str:
    """The same as the end of a part of a sentence."""
    said = instead_of(kind)
    return f" ({said})" if said else ""


def meant(kind: str, known: Collection[str]) -> str:
    """Types of layers that one that is not known looks like, as the end of a sentence; "": none does."""
    plain = {re.sub(r"\W|_", "", name).lower(): name for name in known}
    found = difflib.get_close_matches(re.sub(r"\W|_", "", kind.rpartition(".")[2]).lower(), plain, 1, 0.75)
    return f"; did you mean {plain[found[0]]}?" if found else ""
