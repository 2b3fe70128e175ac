# SPDX-License-Identifier: BSD-2-Clause
"""BearSSL's source, from Debian: the crypto library that replayers link."""

from __future__ import annotations

from pathlib import Path

from host_tools.machine import sources
from tee_replayer import crypto

SUITE = "bookworm"


def source() -> Path:
    """The source tree, fetched once into the user's cache folder.

    Raises:
        GramophoneError: it cannot be fetched, or is not what the replayer needs.
    """
    tree = sources.source("bearssl", SUITE)
    crypto.version(tree)
    return tree
