# SPDX-License-Identifier: BSD-2-Clause
"""The networks of GPUReplay's public recordings: descriptions, and weights laid out as their slots want them."""
