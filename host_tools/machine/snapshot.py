# SPDX-License-Identifier: BSD-2-Clause
"""Debian's archive as it was on a date: snapshot.debian.org, which keeps every state of it since March 2005.

A snapshot is named by its time in UTC, such as 20261101T000000Z; for a time between two of them the server gives
the one before (https://snapshot.debian.org, "Usage").
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

from host_tools.machine.errors import RecordError
from trace_format import limits
from trace_format.files import read_file_text

# Not by plain HTTP: Debian's signature does not say of which day an index is the newest.
ARCHIVE = "https://snapshot.debian.org/archive/debian"
FIRST = datetime(2005, 3, 12, tzinfo=UTC)
_STAMP = "%Y%m%dT%H%M%SZ"
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{8}T\d{6}Z", re.ASCII)


def timestamp(date: str) -> str:
    """A snapshot's name.

    Args:
        date: YYYY-MM-DD, for the beginning of that day in UTC, or a snapshot's name.

    Raises:
        RecordError: it is neither, no such day, before the archive's first snapshot, or not in the past.
    """
    try:
        if not _DATE.fullmatch(date):
            raise ValueError(date)
        time = datetime.strptime(date, _STAMP if date.endswith("Z") else "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise RecordError(
            f"--snapshot: expected a date such as 2026-11-01 or 20261101T000000Z, found {date!r}"
        ) from None
    if not FIRST <= time < datetime.now(UTC):
        raise RecordError(f"--snapshot: expected a date from {FIRST:%Y-%m-%d} on, in the past, found {date}")
    return time.strftime(_STAMP)


def uri(stamp: str) -> str:
    """The archive as of a snapshot."""
    return f"{ARCHIVE}/{stamp}"


def check_index(lists: Path, stamp: str) -> None:
    """Check that apt's indexes are not newer than their snapshot, as those of a mirror or proxy in between can be.

    Args:
        lists: apt's folder of indexes, with the suite's signed index.
        stamp: the snapshot's name.

    Raises:
        RecordError: they are, or say no date.
    """
    latest = datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    for index in sorted(lists.glob("*Release")):
        found = re.search(r"^Date: (.*)$", read_file_text(index, limits.TEXT_BYTES), re.MULTILINE)
        try:
            date = parsedate_to_datetime(found[1]) if found else None
        except ValueError:
            date = None
        if date is None or date.replace(tzinfo=date.tzinfo or UTC) > latest + timedelta(seconds=1):
            said = found[1] if found else "none"
            raise RecordError(
                f"{index}: date of the index: expected at most {latest:%a, %d %b %Y %T} UTC, found {said}"
            )
