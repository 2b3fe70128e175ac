# SPDX-License-Identifier: BSD-2-Clause
"""Sources of Debian packages, each unpacked once into the user's cache folder."""

import os
import tempfile
from functools import cache
from pathlib import Path

from host_tools.machine.apt import AptRoot
from host_tools.machine.tested import TESTED, say_if_other
from host_tools.support.cache import cache_dir, locked


@cache
def source(package: str, suite: str, purpose: str, stamp: str = "") -> Path:
    """The source tree of a package: of the tested version, or the newest where the suite no longer has that.

    Args:
        package, suite: of Debian.
        purpose: what it is for, for errors.
        stamp: name of a snapshot of the archive that has the tested version; "": the archive as it is.

    Returns:
        The folder, whose name is the version.

    Raises:
        RecordError: it cannot be fetched.
    """
    folder = cache_dir("source", package)
    with locked(folder / "in-use"):
        tree = folder / TESTED[package]
        if not tree.exists():
            apt = AptRoot(suite, "all", "source", f"source of {package}, {purpose}", stamp=stamp)
            tree = folder / apt.source_version(package, TESTED[package])
            if not tree.exists():
                with tempfile.TemporaryDirectory(dir=folder) as name:
                    os.rename(apt.source(package, tree.name, Path(name)), tree)
    say_if_other(package, tree.name)
    return tree
