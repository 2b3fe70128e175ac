# SPDX-License-Identifier: BSD-2-Clause
"""Recordings of other people."""
