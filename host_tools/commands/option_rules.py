# SPDX-License-Identifier: BSD-2-Clause
"""Options that exclude or require each other: decorators of a command's function, as `click.option` is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource

Function = TypeVar("Function", bound=Callable[..., Any])


def excludes(option: str, *others: str) -> Callable[[Function], Function]:
    """Refuse an option together with any of the others."""

    def wrong(given: set[str]) -> str | None:
        return next((f"cannot be combined with {other}" for other in others if other in given), None)

    return _rule(option, others, wrong)


def requires(option: str, *others: str) -> Callable[[Function], Function]:
    """Refuse an option without one of the others."""

    def wrong(given: set[str]) -> str | None:
        return None if given.intersection(others) else f"requires {' or '.join(others)}"

    return _rule(option, others, wrong)


def check(ctx: click.Context, function: Callable[..., Any] | None) -> None:
    """Apply the rules of a command's function to the options that were typed.

    Raises:
        click.UsageError: they do not fit together.
    """
    given = {
        name
        for param in ctx.command.params
        if param.name and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
        for name in param.opts
    }
    for option, _, wrong in getattr(function, "option_rules", ()):
        if option in given and (said := wrong(given)):
            raise click.UsageError(f"{option} {said}", ctx)


def _rule(
    option: str, others: Sequence[str], wrong: Callable[[set[str]], str | None]
) -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        rules = [(option, others, wrong), *getattr(function, "option_rules", ())]
        setattr(function, "option_rules", rules)  # noqa: B010 - of any function
        return function

    return add
