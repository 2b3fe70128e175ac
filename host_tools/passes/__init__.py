# SPDX-License-Identifier: BSD-2-Clause
"""Passes: each a named change of a program that keeps outputs and GPU-visible memory as they are."""
