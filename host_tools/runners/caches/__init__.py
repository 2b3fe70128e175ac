# SPDX-License-Identifier: BSD-2-Clause
"""A checker of caches and order for firmware in Unicorn, which has neither: an error of cache maintenance, or a
missing barrier, changes nothing there. Off by default; `CheckedMachine` takes the place of the runner's machine.

Not in here: what the firmware does about caches, which is in assembly (`baremetal/mmu.S`).

Read first: model.py
"""
