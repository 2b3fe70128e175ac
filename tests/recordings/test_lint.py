# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone lint` on traces made of the public recordings: notes only."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools.audit.lint import lint
from host_tools.audit.rules import Severity
from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.passes.pipeline import build


@pytest.mark.parametrize("name", ["mnist", pytest.param("mobilenet", marks=pytest.mark.exhaustive)])
def test_nothing_is_found_in_what_was_recorded(recordings: Path, name: str) -> None:
    """But that their weights, which are not in the public recordings, are the caller's to give."""
    findings = lint(build(import_gpureplay(recordings / name, name)))
    assert [f.rule.id for f in findings if f.rule.severity is not Severity.NOTE] == ["GR408"]
