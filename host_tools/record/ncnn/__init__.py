# SPDX-License-Identifier: BSD-2-Clause
"""Recording networks of ncnn: what its files hold, its own CPU back end as the reference, three runs on the GPU
with varied weights, and layers that are computed on the CPU; `pnnx` converts other frameworks' files to ncnn's.

Not in here: what recordings of any program share (`record`: slots, tensors, checks).

Read first: network.py
"""
