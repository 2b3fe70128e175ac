# SPDX-License-Identifier: BSD-2-Clause
"""The schemas of what commands print with `--json`, and a check of all that they print in this process."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
import pytest

from host_tools.cli import main
from host_tools.commands import framework
from host_tools.commands.result_schemas import schema_of

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator


def name_of(words: str) -> str:
    """The file of a command that is not typed yet: its first name, or that of its group."""
    first = {new: old for old, new in main.tree.renamed.items()}
    return next((old for new, old in first.items() if f"{words} ".startswith(f"{new} ")), words.split()[0])


@functools.cache
def validator(name: str) -> Draft202012Validator:
    """Of a command, by its words."""
    from jsonschema import Draft202012Validator  # takes four seconds, which most runs of some tests can save

    command: click.Command = main
    for word in name.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None, name
        command = found
    return Draft202012Validator(schema_of(tuple(name.split()), command))


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
        words = command_path.partition(" ")[2]
        if words:
            check(words, json.loads(json.dumps(data)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framework, "print_json", checked)
        yield
