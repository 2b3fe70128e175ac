# SPDX-License-Identifier: BSD-2-Clause
"""Benches of OP-TEE at their smallest: each runs to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import benches


@pytest.mark.usefixtures("pta")
@pytest.mark.parametrize("name", benches.of("optee"))
def test_a_bench_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert benches.run(name, tmp_path, monkeypatch) == 0
