# SPDX-License-Identifier: BSD-2-Clause
"""Other people's recordings as raw traces: the files of GPUReplay. In `networks`, what their buffers hold.

Not in here: how a family's recorded accesses become actions (`gpus/FAMILY`), and rules between GPUs
(`gpus/mali/rules`).

Read first: gpureplay.py
"""
