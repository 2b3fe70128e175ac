# SPDX-License-Identifier: BSD-2-Clause
"""Faster kernels for what tinygrad compiles: schedules tried on the virtual GPU, with the time model as cost.

Not in here: how a network is compiled and recorded (`record.compiled`), which takes the compiler's own kernels.

Read first: search.py
"""
