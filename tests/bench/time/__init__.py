# SPDX-License-Identifier: BSD-2-Clause
"""The model of jobs' times against times that others measured: a Mali G71's in GPUReplay's public recordings,
hand-written programs on a Raspberry Pi 4, ncnn's benchmark on a Raspberry Pi 5.

Not in here: the model (`host_tools/model/timing.py`) and its constants (`host_tools/gpus/*/timing.toml`).

Read first: __main__.py
"""
