# SPDX-License-Identifier: BSD-2-Clause
"""Tests that need a C compiler: the virtual GPUs by registers, shaders and faults, the replayer's core on this
machine against them, and every pass by replays before and after it.

Not in here: firmware (`tests/emulated`), and networks that are recorded for a test (`tests/qemu`).

Read first: conftest.py
"""
