# SPDX-License-Identifier: BSD-2-Clause
"""Tests that boot QEMU: recording in the guest, replays of firmware from reset, Linux processes, and the documents
whose commands are run (test_tutorial.py).

Not in here: OP-TEE (`tests/optee`).

Read first: test_end_to_end.py
"""
