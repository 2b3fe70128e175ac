# SPDX-License-Identifier: BSD-2-Clause
"""OP-TEE as a runner, as far as nothing has to boot for it."""
