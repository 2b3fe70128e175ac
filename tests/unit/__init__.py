# SPDX-License-Identifier: BSD-2-Clause
"""Tests that need Python only: formats, passes over small programs, commands, documents, and the rules that the
sources keep (imports, licences, recipes for ports).

Not in here: what compiles C (`tests/vgpu`) or boots anything.

Read first: trace_format/test_trace.py
"""
