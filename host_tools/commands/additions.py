# SPDX-License-Identifier: BSD-2-Clause
"""Options that extras add to commands of the core.

A command has a place for them by `@takes(PLACE)`, and gets `PLACE=[..]`: what the extras' functions made of their
options. An extra's function is written as a command's, with `click.option` and the decorators of option_rules.py;
it returns None if nothing was asked of it. Its module imports nothing that takes time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from host_tools.support.extra import everyone, loaded, unusable

KERNELS = "kernels"  # who chooses the kernels of a compiler's plan: `host_tools.record.compiled.compilers.Kernels`

Command = Callable[..., Any]


def takes(place: str) -> Callable[[Command], Command]:
    """Give a command the options that extras add at a place."""

    def decorate(command: Command) -> Command:
        added = _added(place)

        @functools.wraps(command)
        def with_additions(**params: Any) -> Any:
            made = [one(**{param.name: params.pop(param.name) for param in _params(one)}) for one in added]
            return command(**params, **{place: [found for found in made if found is not None]})

        own: dict[str, Any] = vars(with_additions)
        own["__click_params__"] = [param for one in (command, *reversed(added)) for param in _params(one)]
        own["option_rules"] = [rule for one in (command, *added) for rule in getattr(one, "option_rules", ())]
        return with_additions

    return decorate


def _params(function: Command) -> list[Any]:
    """A function's options as click's decorators keep them: the last first."""
    return list(getattr(function, "__click_params__", ()))


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
