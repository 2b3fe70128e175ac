# SPDX-License-Identifier: BSD-2-Clause
"""Tests of what the core can do without, a folder an extra. What needs a virtual GPU or a machine is in
`tests/vgpu` or `tests/qemu`.

Not in here: tests of the core.

Read first: publish/test_statement.py
"""
