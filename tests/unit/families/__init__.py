# SPDX-License-Identifier: BSD-2-Clause
"""What a GPU family is to the host."""
