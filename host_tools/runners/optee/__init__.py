# SPDX-License-Identifier: BSD-2-Clause
"""OP-TEE and TF-A from Debian's sources, built with the pseudo-TA into one firmware image for QEMU, with a small
program or Linux as the normal world.

Not in here: the pseudo-TA and the TA themselves (`tee_replayer/optee`), and the client on devices (`device`).

Read first: build.py
"""
