# SPDX-License-Identifier: BSD-2-Clause
"""What is within every limit, and named all the same: long pauses, and versions far above those in use."""

from __future__ import annotations

import numpy as np
import pytest

from host_tools.audit.limits import unusual
from host_tools.audit.lint import lint
from tests.unit.audit.test_lint import good
from trace_format.actions import Op, action, array_of
from trace_format.trace import Trace

MINUTE_US = 60_000_000


def texts(trace: Trace) -> list[str]:
    return [f"{finding.rule.id} {finding.text}" for finding in unusual(trace)]


def test_pauses_of_ten_minutes_are_named_with_retries() -> None:
    """As long as every device allows: nothing else is found in it."""
    pauses = [action(Op.INTERVAL, us=us) for us in (299_000_000, 300_000_000)]
    trace = good(*pauses, time_budget_us=10 * MINUTE_US, retry_limit=8)
    assert texts(trace) == [
        "GR504 pauses add up to 599 s, with 8 retries to 5391 s; "
        "the time budget, for all attempts together, is 600 s"
    ]
    assert [finding.rule.id for finding in lint(trace)] == ["GR504"]


@pytest.mark.parametrize(
    ("retries", "words"), [(0, ";"), (1, ", with 1 retry to 3 s;"), (9, ", with 8 retries to")]
)
def test_no_device_makes_more_retries(retries: int, words: str) -> None:
    (text,) = texts(good(action(Op.INTERVAL, us=1_500_000), retry_limit=retries))
    assert text.startswith(f"GR504 pauses add up to 1.5 s{words}")


def test_pauses_of_the_prologue_count() -> None:
    pause = action(Op.INTERVAL, us=600_000)
    once = good(pause)
    assert texts(once) == []
    assert len(texts(once.with_(actions=np.concatenate([array_of([pause]), once.actions])))) == 1


def test_a_second_is_no_long_pause() -> None:
    assert texts(good(action(Op.INTERVAL, us=1_000_000))) == []


def test_a_version_that_leaves_no_other() -> None:
    assert texts(good(security_version=2**32 - 1)) == [
        "GR006 security version 4294967295, above 65535: a device with a rollback counter that has replayed it "
        "refuses every lower one of this name from then on; no higher one is left"
    ]
    (text,) = texts(good(security_version=65_536))
    assert text.endswith("; 4294901759 higher ones are left")
    assert texts(good(security_version=65_535)) == []
