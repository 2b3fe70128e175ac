# SPDX-License-Identifier: BSD-2-Clause
"""BearSSL's source: the crypto library that replayers link; from Debian, unless the user has it."""

from __future__ import annotations

from pathlib import Path

from host_tools.machine import sources
from host_tools.machine.errors import RecordError
from tee_replayer import crypto

SUITE = "bookworm"


def source(given: Path | None = None) -> Path:
    """The source tree: `given`, or one that is fetched once into the user's cache folder.

    Raises:
        GramophoneError: it cannot be fetched, or is not what the replayer needs.
    """
    try:
        tree = given or sources.source("bearssl", SUITE, "the crypto library that replayers link")
    except RecordError as error:
        raise RecordError(f"{error}; --bearssl DIR takes a source tree that is there") from error
    crypto.version(tree)
    return tree
