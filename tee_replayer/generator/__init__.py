# SPDX-License-Identifier: BSD-2-Clause
"""Generates replayers: self-contained folders of C for one GPU, platform and key, on bare metal, in OP-TEE or in a
process of Linux; descriptions of boards, translation tables, and the same core as a library of this machine.

Not in here: the C that it writes down (`core`, `drivers` and the others beside this room), the command
(`host_tools/commands/generate.py`), and compiling firmware (`host_tools/runners/firmware.py`).

Read first: generate.py
"""
