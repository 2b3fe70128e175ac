# SPDX-License-Identifier: BSD-2-Clause
"""The error of a published document."""

from __future__ import annotations

from trace_format.errors import TraceError


class DocumentError(TraceError):
    """A signed document of another project's form (in-toto, Rekor, SUIT) that is not what that form says."""
