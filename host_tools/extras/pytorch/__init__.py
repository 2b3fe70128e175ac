# SPDX-License-Identifier: BSD-2-Clause
"""Programs of PyTorch's torch.export (.pt2) as ONNX networks, without PyTorch: the file is data, not code, and
says the shape and type of every tensor. For model owners who train with PyTorch.

Not in here: TorchScript, which pnnx converts for ncnn (`record.ncnn.pnnx`), and what becomes of an ONNX network
(`record.choosing`).

Read first: program.py
"""

from __future__ import annotations

from host_tools.extras import Extra, LazyCommand

EXTRA = Extra(
    "pytorch",
    "Record networks of PyTorch.",
    {
        "record pytorch": LazyCommand(
            "host_tools.extras.pytorch.command:record_pytorch", "Record a PyTorch network, by ncnn or by tinygrad."
        )
    },
    networks=dict.fromkeys((".pt2", ".pt"), "host_tools.extras.pytorch.choose:choose_pytorch"),
)
