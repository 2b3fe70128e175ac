# SPDX-License-Identifier: BSD-2-Clause
"""What `build --secure-memory` says that it has done."""

from __future__ import annotations

from host_tools.passes.streaming_report import Streamed


def test_words_and_facts_are_the_same_figures() -> None:
    done = Streamed(8000, 7000, pieces=3, first_bytes=10, again_bytes=200, resident_bytes=30)
    text, needs = done.lines()
    assert text == (
        "secure memory: at most 7000 of 8000 bytes; 3 pieces are read while jobs run: 200 bytes again in each "
        "replay, 30 once"
    )
    assert "streaming = true" in needs
    facts = done.facts()
    assert all(getattr(facts, name) == value for name, value in vars(done).items())
