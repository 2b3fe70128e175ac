# SPDX-License-Identifier: BSD-2-Clause
"""Signing: what every device refuses is not signed."""

from __future__ import annotations

from host_tools.audit.lint import stopped
from host_tools.support.progress import phase
from signing import encryption
from signing.envelope import shifted
from trace_format import layout, policy
from trace_format.codec import Buffer
from trace_format.errors import GramophoneError
from trace_format.schema import HEADER_FLAG_RAW
from trace_format.trace import Trace


def checked(data: Buffer, file: str, offset: int = 0) -> Trace:
    """The content of a trace that is to be signed.

    Args:
        data: the trace.
        file: its name, for messages.
        offset: where it starts in its file.

    Raises:
        TraceError: it is malformed.
        GramophoneError: every device refuses it, or stops at it; names the first such thing, and how many there
            are. Raw recordings are for the device that they were made on.
    """
    try:
        with phase(f"checking {file}"), shifted(offset):
            content = encryption.parse(data, file)
            policy.check(content, f"{file}: ")
    except policy.PolicyError as error:
        is_raw = layout.read_header(data)["flags"] & HEADER_FLAG_RAW
        advice = "; 'gramophone build' makes a trace of a raw recording that devices accept" if is_raw else ""
        raise GramophoneError(f"{error}: every device refuses it, so it is not signed{advice}") from error
    if content.raw:
        return content
    with phase(f"checking what {file} does"):
        found = stopped(content)
    if found:
        first = found[0]
        where = "" if first.action is None else f", action {first.action}"
        more = f" (and {len(found) - 1} more: 'gramophone lint' has them)" if len(found) > 1 else ""
        raise GramophoneError(
            f"{file}{where}: {first.text} [{first.rule.id}]: every device stops there, so it is not signed{more}"
        )
    return content
