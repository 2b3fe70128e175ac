# SPDX-License-Identifier: BSD-2-Clause
"""The schemas of what commands print with `--json`, and a check of all that they print in this process."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest

from host_tools.commands import framework

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

FOLDER = resources.files("host_tools") / "commands" / "schemas"
COMMON = "common"


def names() -> list[str]:
    """Names of all schemas, `common` among them."""
    return sorted(entry.name.removesuffix(".json") for entry in FOLDER.iterdir())


def schema(name: str) -> dict[str, Any]:
    """A schema as it is shipped."""
    found = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


@functools.cache
def validator(name: str) -> Draft202012Validator:
    """Of a command; what it refers to lies in the same folder."""
    from jsonschema import Draft202012Validator  # takes four seconds, which most runs of some tests can save
    from referencing import Registry, Resource

    registry: Registry[Any] = Registry().with_resource("common.json", Resource.from_contents(schema(COMMON)))
    return Draft202012Validator(schema(name), registry=registry)


def check(name: str, data: Any) -> None:
    """AssertionError naming what does not fit."""
    errors = [
        f"{error.json_path}: {deepest.message}"
        for error in validator(name).iter_errors(data)
        for deepest in (error.context or [error])
    ]
    assert not errors, (name, errors, data)


@pytest.fixture(autouse=True, scope="session")
def _json_fits_its_schema() -> Iterator[None]:
    """Whatever a command prints as JSON in a test's own process."""
    real = framework.print_json

    def checked(command_path: str, data: dict[str, Any]) -> None:
        real(command_path, data)
        words = command_path.split()
        if len(words) > 1:
            check(words[1], json.loads(json.dumps(data)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framework, "print_json", checked)
        yield
