# SPDX-License-Identifier: BSD-2-Clause
"""Measurements (`make bench`): tables of sizes, instructions and times, compared with the last run's; `make
size-diff` for the firmware by function.

Not in here: limits that hold: those are tests (`tests/emulated/test_firmware.py` and others).

Read first: __main__.py
"""
