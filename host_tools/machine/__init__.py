# SPDX-License-Identifier: BSD-2-Clause
"""The guest machine that recordings, OP-TEE and Linux boot: packages of Debian and wheels, each unpacked once, its
initramfs, device tree, console, and the saved state in which every run starts.

Not in here: what runs in it (`record/ncnn/guest`, jobs of `runners`), and the virtual GPU that it sees (`vgpu`).

Read first: boot.py
"""
