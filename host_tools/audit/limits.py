# SPDX-License-Identifier: BSD-2-Clause
"""What a manifest asks for that is within every limit, and still hardly meant: long pauses, versions far above."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from host_tools.audit.rules import DEVICE_RETRIES, RULES, Finding
from host_tools.model.summary import unsigned
from trace_format.actions import Columns, Type
from trace_format.trace import Trace

LONG_PAUSES_US = 1_000_000  # of one attempt together; recordings have pauses of microseconds
USUAL_VERSIONS = 0xFFFF  # one a day, for 179 years
LAST_VERSION = 2**32 - 1


def unusual(trace: Trace) -> Iterator[Finding]:
    """Findings about the trace as a whole."""
    meta = Trace.META_DEFAULTS | trace.meta
    yield from _pauses(trace, int(meta["time_budget_us"]), int(meta["retry_limit"]))
    yield from _version(int(meta["security_version"]))
    if text := unsigned(trace):
        yield Finding(RULES["GR408"], f"the signature does not cover {text}")


def _pauses(trace: Trace, budget_us: int, retry_limit: int) -> Iterator[Finding]:
    pauses = Columns(trace.actions).of(Type.MICROSECONDS).astype(np.int64)
    once = int(pauses[pauses > 0].sum())  # a retry begins with the prologue
    if once <= LONG_PAUSES_US:
        return
    retries = min(retry_limit, DEVICE_RETRIES)
    text = f"pauses add up to {_seconds(once)}"
    if retries:
        word = "retry" if retries == 1 else "retries"
        text += f", with {retries} {word} to {_seconds(once * (1 + retries))}"
    yield Finding(RULES["GR504"], f"{text}; the time budget, for all attempts together, is {_seconds(budget_us)}")


def _version(version: int) -> Iterator[Finding]:
    if version <= USUAL_VERSIONS:
        return
    above = LAST_VERSION - version
    left = "no higher one is left" if not above else f"{above} higher ones are left"
    text = (
        f"security version {version}, above {USUAL_VERSIONS}: a device with a rollback counter that has replayed "
        f"it refuses every lower one of this name from then on; {left}"
    )
    yield Finding(RULES["GR006"], text)


def _seconds(us: int) -> str:
    return f"{us / 1e6:.10g} s"
