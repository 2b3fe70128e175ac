# SPDX-License-Identifier: BSD-2-Clause
"""Trace to trace."""
