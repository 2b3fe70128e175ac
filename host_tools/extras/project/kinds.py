# SPDX-License-Identifier: BSD-2-Clause
"""What a project file is for `inspect`: its networks and targets. Nothing that it names is read."""

from __future__ import annotations

from typing import Any

from trace_format.errors import TraceError
from trace_format.toml_table import loads

SUFFIX = ".toml"


def identify(data: bytes, file: str) -> tuple[str, dict[str, Any]] | None:
    """What a file is; None: no project file."""
    if not file.endswith(SUFFIX):
        return None
    found = loads(data, TraceError, file)
    networks, targets = found.get("networks"), found.get("targets", {})
    if not isinstance(networks, dict) or not isinstance(targets, dict):
        return None
    return "project file", {"networks": list(networks), "targets": list(targets)}
