# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone-tee`: replays on a device, through OP-TEE, for programs of the normal world.

Not in here: what runs in the secure world (`tee_replayer/optee`), and commands that extras add
(`support/device_extras.py`). It runs on the device itself, so its modules import only Python's standard library,
cffi's backend and each other. `bundle` (in `runners/optee`) and `declarations` are the exceptions: they run where
the device's software is built.

Read first: library.py
"""
