# SPDX-License-Identifier: BSD-2-Clause
"""A trace as text: all of it, to be read, edited, and made into the same bytes again (docs/TEXT.md)."""
