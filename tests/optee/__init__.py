# SPDX-License-Identifier: BSD-2-Clause
"""Tests of the replayer in OP-TEE: the pseudo-TA, the TA, the client library against stand-ins on this machine,
and in QEMU with a small program or Linux as the normal world.

Not in here: generated folders for OP-TEE as text (`tests/unit`).

Read first: conftest.py
"""
