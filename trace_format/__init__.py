# SPDX-License-Identifier: BSD-2-Clause
"""The formats, each described once: the schema of what two programs share, opcodes and operators, and in `gpus`
the registers of each GPU with its allow list, which is what a trace may do to them.

Not in here: what a trace means (`host_tools/model`), signatures (`signing`).

Read first: trace.py
"""
