# SPDX-License-Identifier: BSD-2-Clause
"""The window in a real browser: every job of a recurrent and of a convolutional network, by the arrow key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extras.window.test_pages import hostile
from tests.support import browser, window
from tests.support.places import CHECKOUT
from tests.support.pointwise import RAW
from trace_format.trace import Trace

SPOTTER = CHECKOUT / "tests/support/torch_spotter.raw.gtr"  # a GRU, compiled by tinygrad


def stepped(trace: Trace) -> tuple[window.Stepping, browser.Seen]:
    """Go through all pages of a trace; the pages, and the last one as the browser has it."""
    stepping = window.Stepping(window.pages(trace))
    with window.served(stepping.answer) as server:
        return stepping, browser.see(server.url)


@pytest.mark.parametrize("file", [SPOTTER, RAW], ids=["GRU", "convolutions"])
def test_the_arrow_key_steps_through_all_jobs(file: Path) -> None:
    stepping, last = stepped(Trace.read(file))
    jobs = stepping.inner.session.subject.facts.jobs
    assert [path for path, _ in stepping.seen] == ["", *(f"job/{number}" for number in range(len(jobs)))]
    assert f"<h1>Job {len(jobs) - 1}" in last.dom
    assert last.said == []
    computing = [
        page.body for job, (_, page) in zip(jobs, stepping.seen[1:], strict=True) if job.kind == "compute"
    ]
    assert len(computing) >= 4
    for body in computing:
        assert body.count("data:image/png;base64,") >= 2
        assert '<pre class="shader"><span class="faint">    0</span>' in body


def test_a_hostile_trace_is_text_in_the_browser() -> None:
    """Names with markup run nothing, load nothing, and break nothing."""
    stepping, last = stepped(hostile())
    assert len(stepping.seen) > 1
    assert last.said == []
    assert "<title>Job" in last.dom


def test_the_policy_holds_in_the_browser() -> None:
    """What would run if a value were not escaped is refused by the browser, too."""
    inner = window.pages(hostile())
    with window.served(
        lambda path, query: type(page := inner.answer(path, query))(
            page.body.replace("</head>", "<script>document.title = 1</script></head>"), page.type
        )
    ) as server:
        seen = browser.see(server.url)
    assert "<title>1" not in seen.dom
    assert any("Content Security Policy" in said for said in seen.said), seen.said
