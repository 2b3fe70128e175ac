# SPDX-License-Identifier: BSD-2-Clause
"""Firmware in Unicorn, and the virtual GPU beside it, are in a sandbox: as tests/vgpu/test_confined.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools import runners
from host_tools.demo import RAW
from host_tools.passes.pipeline import KEEP_INPUTS, build
from host_tools.support.sandbox import VARIABLE
from signing.delivery import Delivery
from tests.support import attacks
from tests.support import replayer_samples as s
from tests.support.sandbox import needs
from trace_format.errors import GramophoneError
from trace_format.trace import Trace


@pytest.fixture(scope="module")
def delivery() -> Delivery:
    return Delivery(s.signed(build(Trace.read(RAW), skip=KEEP_INPUTS)))


@pytest.mark.parametrize("mode", ["on", "off"])
@pytest.mark.parametrize("name", ["read_a_file", "open_a_socket", "start_a_program"])
def test_an_attack(
    name: str, mode: str, delivery: Delivery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "on":
        needs(files=name in attacks.BY_FILES)
    monkeypatch.setenv(VARIABLE, mode)
    folder = attacks.prepare(tmp_path / "outside")
    monkeypatch.setattr("host_tools.runners.unicorn.VirtualGpu", attacks.hostile(name, folder))
    said = "refused" if mode == "on" else "done"
    with pytest.raises(GramophoneError, match=f"the attack was {said}"):
        runners.run("unicorn", delivery, s.KEY)


def test_it_replays(delivery: Delivery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "on")
    assert runners.run("unicorn", delivery, s.KEY).ok
