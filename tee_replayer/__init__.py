# SPDX-License-Identifier: BSD-2-Clause
"""The replayer, which devices run: in C, `core` copies a trace, verifies its signature, checks each action against
the allow list of registers (core/check.c) and runs it, with retries after a fault; `features` are what a device
can also have; `drivers` reset a GPU and build its page tables; `crypto`, `optee` and `linux` are joined to it as a
device needs them.

Not in here: boards (`baremetal`), formats (`trace_format`). Python is only what puts the C together (`generator`)
and names its files.

Read first: core/replayer.h
"""
