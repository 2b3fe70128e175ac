# SPDX-License-Identifier: BSD-2-Clause
"""The sources of the crypto libraries that replayers link; from Debian, unless the user has them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from host_tools.machine import sources
from host_tools.machine.errors import RecordError
from host_tools.machine.tested import TESTED
from tee_replayer.crypto import ACCEPT, Libraries
from trace_format.errors import GramophoneError

PURPOSE = "a crypto library that replayers link"


@dataclass(frozen=True)
class _Source:
    """Where a library comes from.

    Attributes:
        package, suite: of Debian.
        option: what takes a tree instead.
        snapshot: of Debian's archive, in which the suite had the tested version; "" of a suite that never changes.
    """

    package: str
    suite: str
    option: str
    snapshot: str = ""


BEARSSL = _Source("bearssl", "bookworm", "--bearssl")
AWS_LC = _Source("rust-aws-lc-sys", "sid", "--aws-lc", "20261030T140000Z")  # it is in no release of Debian yet


def source(bearssl: Path | None = None, aws_lc: Path | None = None) -> Libraries:
    """The source trees: those given, or what is fetched once into the user's cache folder.

    Where the suite has moved on, its newest version is taken if the files are the same; else the tested one, from
    the archive's snapshots.

    Raises:
        GramophoneError: one cannot be fetched, or its files are not those that this version was made with and
            $GRAMOPHONE_ACCEPT_CRYPTO does not name them.
    """
    accepted = [word.strip().lower() for word in os.environ.get(ACCEPT, "").split(",")]
    newest = Libraries(bearssl or _fetched(BEARSSL), aws_lc or _fetched(AWS_LC))
    try:
        newest.check(accepted)
    except GramophoneError as error:
        assert newest.aws_lc is not None
        if aws_lc is not None or newest.aws_lc.name == TESTED[AWS_LC.package]:
            raise
        try:
            tree = sources.source(AWS_LC.package, AWS_LC.suite, PURPOSE, AWS_LC.snapshot)
        except RecordError as missing:
            raise GramophoneError(f"{error}; the tested version cannot be had: {missing}") from missing
        found = Libraries(newest.bearssl, tree)
        found.check(accepted)
        return found
    return newest


def _fetched(of: _Source) -> Path:
    try:
        return sources.source(of.package, of.suite, PURPOSE)
    except RecordError as error:
        raise RecordError(f"{error}; {of.option} DIR takes a source tree that is there") from error
