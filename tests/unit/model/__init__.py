# SPDX-License-Identifier: BSD-2-Clause
"""What a trace means: memory and mappings."""
