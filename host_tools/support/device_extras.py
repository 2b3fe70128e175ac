# SPDX-License-Identifier: BSD-2-Clause
"""Commands that extras add to `gramophone-tee`: the one table by which it and its bundle know them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

# Modules, each with a function `add(command, session)`, and what they import beside `gramophone-tee`'s own.
ADDED = {
    "host_tools.extras.gguf.on_device": (
        "host_tools.extras",
        "host_tools.extras.gguf",
        "host_tools.extras.gguf.conversation",
        "host_tools.extras.gguf.signed_words",
        "host_tools.extras.gguf.words",
        "host_tools.support.extra",
    )
}


def adders() -> Iterator[Callable[..., Any]]:
    """What adds commands, of extras that are there."""
    for name in ADDED:
        try:
            yield __import__(name, fromlist=["add"]).add  # as a statement does, which -X importtime lists
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
