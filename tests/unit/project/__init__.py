# SPDX-License-Identifier: BSD-2-Clause
"""The repository itself: imports, licences, Makefile, tests' own tools."""
