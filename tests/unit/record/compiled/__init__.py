# SPDX-License-Identifier: BSD-2-Clause
"""Networks by a compiler, on this machine: lavapipe runs the kernels, ONNX Runtime is the reference."""
