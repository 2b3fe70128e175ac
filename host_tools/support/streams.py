# SPDX-License-Identifier: BSD-2-Clause
"""Standard output and error, whatever encoding the locale or $PYTHONIOENCODING gives them."""

from __future__ import annotations

import io
import sys


def escape_unprintable() -> None:
    """Print escapes for characters that the encoding of a standard stream lacks, and for a name's odd bytes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
