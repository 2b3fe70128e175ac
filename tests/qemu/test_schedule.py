# SPDX-License-Identifier: BSD-2-Clause
"""Requests with deadlines in firmware in QEMU's secure world: all outputs are those of single traces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from host_tools.vgpu.build import QEMU
from tee_replayer.generator.status import value_of
from tests.support.bare_metal import require
from tests.support.mailbox_requests import mixed, on_qemu, scheduling_firmware, serve
from tests.support.sampling import SomeOf
from tests.vgpu.test_joined import FOUR, PAIR

AT_ONCE, ROUNDS = 50, 200  # ten thousand requests


@pytest.mark.parametrize("names", [pytest.param(PAIR, marks=pytest.mark.exhaustive), FOUR], ids=("two", "four"))
def test_interleaved_requests(names: Sequence[str], tmp_path: Path, some_of: SomeOf) -> None:
    require(QEMU, "qemu-system-arm")
    fw = scheduling_firmware(tmp_path / "out", len(names))
    asked, rounds = mixed(AT_ONCE, 1, len(names)), len(some_of(range(ROUNDS), 1))
    done, report = serve(fw, asked, rounds, names=names, machine=on_qemu)
    assert report.ok
    assert done == AT_ONCE * rounds
    assert {one.status for one in asked} == {value_of("OK")}
    assert len({one.order for one in asked}) == AT_ONCE


def test_a_fault_of_one_leaves_the_others(tmp_path: Path) -> None:
    require(QEMU, "qemu-system-arm")
    fw = scheduling_firmware(tmp_path / "out")
    done, report = serve(fw, mixed(6, 2), machine=on_qemu, fault="9")
    assert report.ok
    assert done == 6
