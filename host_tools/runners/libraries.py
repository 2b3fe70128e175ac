# SPDX-License-Identifier: BSD-2-Clause
"""The sources of the crypto libraries that replayers link; from Debian, unless the user has them."""

from __future__ import annotations

from pathlib import Path

from host_tools.machine import sources
from host_tools.machine.errors import RecordError
from tee_replayer.crypto import Libraries

# Package and suite of each, and the option that takes a tree instead. AWS-LC's is in no release of Debian yet.
BEARSSL, AWS_LC = ("bearssl", "bookworm", "--bearssl"), ("rust-aws-lc-sys", "sid", "--aws-lc")


def source(bearssl: Path | None = None, aws_lc: Path | None = None) -> Libraries:
    """The source trees: those given, or what is fetched once into the user's cache folder.

    Raises:
        GramophoneError: one cannot be fetched, or is not what the replayer needs.
    """
    found = Libraries(bearssl or _fetched(*BEARSSL), aws_lc or _fetched(*AWS_LC))
    found.check()
    return found


def _fetched(package: str, suite: str, option: str) -> Path:
    try:
        return sources.source(package, suite, "a crypto library that replayers link")
    except RecordError as error:
        raise RecordError(f"{error}; {option} DIR takes a source tree that is there") from error
