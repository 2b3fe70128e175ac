# SPDX-License-Identifier: BSD-2-Clause
"""Reading bills of materials: with the schema that the CycloneDX library ships, then as plain JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def validated(path: Path) -> dict[str, Any]:
    """The bill in a file; AssertionError where it is not CycloneDX 1.6."""
    # To import this takes seconds, in each process that only collects tests.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = path.read_text(encoding="utf-8")
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert error is None, str(error)
    bill: dict[str, Any] = json.loads(text)
    return bill


def parts(bill: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A bill's components by name; not those inside of components."""
    found = {part["name"]: part for part in bill["components"]}
    assert len(found) == len(bill["components"])
    return found


def listed(part: dict[str, Any]) -> dict[str, str]:
    """The files of a component: name -> SHA-256."""
    return {inner["name"]: inner["hashes"][0]["content"] for inner in part["components"]}
