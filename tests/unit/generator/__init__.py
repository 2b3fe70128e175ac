# SPDX-License-Identifier: BSD-2-Clause
"""What `gramophone generate` writes: folders for bare metal, OP-TEE and Linux, boards, devices."""
