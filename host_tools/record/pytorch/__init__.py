# SPDX-License-Identifier: BSD-2-Clause
"""Programs of PyTorch's torch.export (.pt2) as ONNX networks, without PyTorch: the file is data, not code, and
says the shape and type of every tensor.

Not in here: TorchScript, which pnnx converts for ncnn (`record.ncnn.pnnx`), and what becomes of an ONNX network
(`record.frontends`).

Read first: program.py
"""
