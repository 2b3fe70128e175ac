# SPDX-License-Identifier: BSD-2-Clause
"""Options that extras add to commands of the core.

A command has a place for them by `@takes(PLACE)`, and gets `PLACE=[..]`: what the extras' functions made of their
options. An extra's function is written as a command's, with `click.option` and the decorators of option_rules.py;
it returns None if nothing was asked of it. Its module imports nothing that takes time.

A judge's function returns what judges a file (`FileJudge`). `adds` says what it adds to the command's result.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import msgspec
from msgspec import structs

from host_tools.support.extra import everyone, loaded, unusable
from host_tools.support.results import Result
from trace_format.codec import Buffer

JUDGES = "judges"  # of `verify trace`, besides signatures and the trace's actions: `FileJudge`
KERNELS = "kernels"  # who chooses the kernels of a compiler's plan: `host_tools.record.compiled.compilers.Kernels`

Command = Callable[..., Any]
R = TypeVar("R", bound=Result)


@dataclass(frozen=True)
class Judged:
    """What a judge found.

    Attributes:
        fields: of the command's result.
        text: a line on it; "": there is nothing to say.
        refusal: why the file is refused; "": it is not.
        verdict: a word for that.
    """

    fields: Mapping[str, Any]
    text: str = ""
    refusal: str = ""
    verdict: str = ""


FileJudge = Callable[[Buffer], Judged]  # of a file's content


def adds(*, fields: type[Result], verdicts: Sequence[str] = (), example: str = "") -> Callable[[Command], Command]:
    """Say what an extra's function adds to a command's result.

    Args:
        fields: the fields of this class, which all have a default.
        verdicts: words besides the command's own.
        example: a command line, for the command's help.
    """

    def decorate(function: Command) -> Command:
        own: dict[str, Any] = vars(function)
        own |= {"added_fields": fields, "added_verdicts": tuple(verdicts), "added_example": example}
        return function

    return decorate


def verdicts(place: str) -> list[str]:
    """Words that the extras add to a verdict."""
    return [word for one in _added(place) for word in getattr(one, "added_verdicts", ())]


def with_fields(result: type[R], place: str) -> type[R]:
    """A command's result with the fields that the extras add."""
    added = [one.added_fields for one in _added(place) if hasattr(one, "added_fields")]
    if not added:
        return result
    fields = [(field.name, field.type, field.default) for one in added for field in structs.fields(one)]
    rows = [inspect.cleandoc(one.__doc__ or "").partition("Attributes:\n")[2] for one in added]
    about = {"__doc__": "\n".join([inspect.cleandoc(result.__doc__ or ""), *rows])}
    module, name = result.__module__, result.__name__
    return cast(type[R], msgspec.defstruct(name, fields, bases=(result,), module=module, namespace=about))


def takes(place: str, result: type[Result] | None = None) -> Callable[[Command], Command]:
    """Give a command the options that extras add at a place; `result`: of `with_fields`, for its schema."""

    def decorate(command: Command) -> Command:
        added = _added(place)

        @functools.wraps(command)
        def with_additions(**params: Any) -> Any:
            made = [one(**{param.name: params.pop(param.name) for param in _params(one)}) for one in added]
            return command(**params, **{place: [found for found in made if found is not None]})

        own: dict[str, Any] = vars(with_additions)
        own["__click_params__"] = [param for one in (command, *reversed(added)) for param in _params(one)]
        if result is not None:
            own["result"] = result
        own["added_examples"] = [line for one in added if (line := getattr(one, "added_example", ""))]
        own["option_rules"] = [rule for one in (command, *added) for rule in getattr(one, "option_rules", ())]
        return with_additions

    return decorate


def _params(function: Command) -> list[Any]:
    """A function's options as click's decorators keep them: the last first."""
    return list(getattr(function, "__click_params__", ()))


@functools.cache
def _added(place: str) -> list[Command]:
    found = []
    for package, extra in everyone():
        if place not in extra.additions:
            continue
        try:
            found.append(loaded(extra.additions[place]))
        except Exception as error:  # somebody else's code
            if not package:
                raise
            unusable(package, error)
    return found
