# SPDX-License-Identifier: BSD-2-Clause
"""Tests that need a cross compiler: firmware that is compiled, its size and code, and its runs in Unicorn, faults
injected among them.

Not in here: whole machines (`tests/qemu`), and the core on this machine (`tests/vgpu`).

Read first: test_firmware.py
"""
