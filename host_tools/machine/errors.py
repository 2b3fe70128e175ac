# SPDX-License-Identifier: BSD-2-Clause
"""Errors of recording: one class, so that a command can print one clear sentence and exit 2."""

from trace_format.errors import GramophoneError


class RecordError(GramophoneError):
    """Something that recording needs is missing, broken, or did not happen; the message says what and where."""
