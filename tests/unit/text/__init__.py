# SPDX-License-Identifier: BSD-2-Clause
"""A trace as text, and back."""
