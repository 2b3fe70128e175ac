# SPDX-License-Identifier: BSD-2-Clause
"""Packages that only some commands need, and that are not installed with the others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from host_tools.commands.framework import UsageError
from host_tools.support.packages import sentence


@contextlib.contextmanager
def extra(name: str, *modules: str) -> Iterator[None]:
    """Turn a missing module into the command that installs it.

    Args:
        name: the extra's, in pyproject.toml.
        modules: that come with it.

    Raises:
        UsageError: one of them is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in modules:
            raise
        raise UsageError(sentence(missing, name)) from None
