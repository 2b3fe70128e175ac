# SPDX-License-Identifier: BSD-2-Clause
"""A signed trace that is to be replayed: taken apart once, however much is asked of it."""

from __future__ import annotations

from typing import Any

import pytest

import gramophone
from host_tools.api.replaying import opened
from host_tools.audit.judgement import judge
from signing.sign import sign_trace
from tests.support.signing_samples import ES256, small_trace
from trace_format.trace import Trace


def test_a_trace_is_taken_apart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    signed = gramophone.SignedTrace(sign_trace(small_trace(), ES256))
    made: list[Trace] = []
    of_sections = Trace.of_sections

    def counted(*arguments: Any) -> Trace:
        made.append(of_sections(*arguments))
        return made[-1]

    monkeypatch.setattr(Trace, "of_sections", counted)
    subject = opened(signed.delivery, ES256.public, "net.sgtr")
    assert subject.is_verified
    assert subject.trace is made[0]
    assert judge(subject.delivery, [subject.key], subject.file).content is made[0]
    assert signed.content is made[0]
    assert len(made) == 1
