# SPDX-License-Identifier: BSD-2-Clause
"""The guest machine: packages, initramfs, device tree, console, saved states."""
