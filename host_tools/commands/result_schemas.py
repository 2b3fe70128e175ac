# SPDX-License-Identifier: BSD-2-Clause
"""JSON Schemas of what commands print with `--json`, made of their results' types: `Outcome[Built]` says the type.

`gramophone manual` writes them, docs/JSON.md lists the commands, tests hold to them all that is printed.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator
from types import NoneType
from typing import Any

import click
import msgspec

from host_tools.commands.tree import usable
from host_tools.support.results import Result

DIALECT = "https://json-schema.org/draft/2020-12/schema"
OF_ALL = {
    "ok": {"type": "boolean", "description": "False if the answer is no (exit status 1)."},
    "warnings": {
        "type": "array",
        "items": {"type": "string"},
        "description": "What must not be overlooked, one sentence each.",
    },
}


class Failure(Result):
    """Usage and bad input (exit status 2), and what a signal ended (128 and its number).

    Attributes:
        error: One sentence: what is wrong, in which file, at which offset.
    """

    ok: typing.Literal[False]
    error: str


def commands(group: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that runs, with its words, but for hidden ones."""
    if not isinstance(group, click.Group):
        yield words, group
        return
    ctx = click.Context(group)
    for name, command in usable(group, ctx):
        if not command.hidden:
            yield from commands(command, (*words, name))


def result_types(command: click.Command) -> tuple[Any, ...]:
    """What a command's outcome may hold, but for None, where nothing is printed; (): it says nothing."""
    assert command.callback is not None
    if result := vars(command.callback).get("result"):  # with the fields of extras
        return (result,)
    found = typing.get_args(typing.get_type_hints(inspect.unwrap(command.callback)).get("return"))
    if not found:
        return ()
    (found,) = found
    return tuple(alternative for alternative in typing.get_args(found) or (found,) if alternative is not NoneType)


def schema_of(words: tuple[str, ...], command: click.Command) -> dict[str, Any]:
    """The schema of what a command prints."""
    types = (*result_types(command), Failure)
    refs, parts = msgspec.json.schema_components(types)
    for part in parts.values():
        _describe(part)
    for ref, type_ in zip(refs, types, strict=True):
        for base in type_.__mro__[1:-1]:
            _explain(parts[ref["$ref"].rpartition("/")[2]]["properties"], inspect.getdoc(base) or "")
    results = [parts.pop(ref["$ref"].rpartition("/")[2]) for ref in refs]
    for result in results[:-1]:
        result["properties"] = OF_ALL | result["properties"]
        result["required"] = [*OF_ALL, *result["required"]]
    title = f"gramophone {' '.join(words)} --json"
    return {"$schema": DIALECT, "title": title, "oneOf": results, **({"$defs": parts} if parts else {})}


def _describe(part: dict[str, Any]) -> None:
    """Say all of a part: its fields' meanings, those that are always there, and that there is no other."""
    fields: dict[str, Any] | None = part.get("properties")
    if fields is None:
        return
    part["additionalProperties"] = False  # msgspec says so of `Result` only
    required = part.get("required", [])
    part["required"] = [name for name, field in fields.items() if name in required or "default" in field]
    for field in fields.values():
        field.pop("default", None)  # it is printed, too
    part["description"] = _explain(fields, str(part.get("description", "")))


def _explain(fields: dict[str, Any], docstring: str) -> str:
    """Give fields their part of a docstring; returns the rest of it."""
    text, _, rows = docstring.partition("\n\nAttributes:\n")
    for names, said in re.findall(r"^ {4}([\w, ]+): (.*(?:\n {5,}.*)*)", rows, re.MULTILINE):
        for name in names.split(", "):
            if name in fields:
                fields[name].setdefault("description", " ".join(said.split()))
    return text
