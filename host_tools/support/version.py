# SPDX-License-Identifier: BSD-2-Clause
"""The version of Gramophone: the one place that says it (pyproject.toml reads it here)."""

VERSION = "0.1.0"
TOOL = f"gramophone {VERSION}"  # as recordings and images name the program that made them
