# SPDX-License-Identifier: BSD-2-Clause
"""What a bare-metal replayer runs on besides the core: start-up code, MMU, linker script, and the ports of boards,
in C and assembly. A board is a description (`boards/NAME.toml`) and a source (`NAME.c`) behind port.h; `optee` has
programs for OP-TEE's normal world.

Not in here: the core (`tee_replayer/core`), and Python: the generator (`tee_replayer/generator`) copies these
files into what it writes.

Read first: port.h
"""
