# SPDX-License-Identifier: BSD-2-Clause
"""The tests, in rooms by what they need: `unit` Python only, `vgpu` a C compiler, `emulated` a cross compiler,
`qemu` and `optee` QEMU, `recordings` the public recordings. docs/TESTING.md says what each covers.

Not in here: helpers of several tests (`support`); conftest.py has what all rooms' tests share.

Read first: conftest.py
"""
