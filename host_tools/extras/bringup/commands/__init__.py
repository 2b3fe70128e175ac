# SPDX-License-Identifier: BSD-2-Clause
"""The commands of the extra bringup: `prove`, and `bringup` (kit_*.py). They read arguments, call the rest of the
extra, and return an `Outcome`, as all commands do.

Not in here: what all commands share, which is host_tools/commands.

Read first: make.py
"""
