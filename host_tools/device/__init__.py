# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone-tee`: replays on a device, through OP-TEE, for programs of the normal world.

It runs on the device itself, so its modules import only Python's standard library, cffi's backend and each other.
`bundle` and `declarations` are the exceptions: they run where the device's software is built.
"""
