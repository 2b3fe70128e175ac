# SPDX-License-Identifier: BSD-2-Clause
"""What a replay can run on."""
