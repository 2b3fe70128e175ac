"""BearSSL's source, from Debian: the crypto library that replayers link."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path

from host_tools.machine.apt import AptRoot
from host_tools.support.cache import cache_dir
from tee_replayer import crypto

SUITE = "bookworm"


@functools.cache
def source() -> Path:
    """The source tree, fetched once into the user's cache folder.

    Raises:
        GramophoneError: it cannot be fetched, or is not what the replayer needs.
    """
    kept = cache_dir("bearssl") / SUITE
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            tree = AptRoot(SUITE, "all", "source").source("bearssl", Path(folder))
            crypto.version(tree)
            os.rename(tree, kept)
    crypto.version(kept)
    return kept
