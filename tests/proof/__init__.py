# SPDX-License-Identifier: BSD-2-Clause
"""The proof of the replayer: `make prove`."""
