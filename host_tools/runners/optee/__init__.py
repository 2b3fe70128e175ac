# SPDX-License-Identifier: BSD-2-Clause
"""OP-TEE and TF-A from Debian's sources, built with the pseudo-TA into one firmware image for QEMU."""
