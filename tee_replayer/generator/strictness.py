# SPDX-License-Identifier: BSD-2-Clause
"""Warnings in our C: errors where we develop, and not where somebody's compiler knows more of them than ours."""

from __future__ import annotations

import os

# tests/conftest.py sets the variable.
STRICT = ["-Werror"] if os.environ.get("GRAMOPHONE_WERROR") else []
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", *STRICT]
