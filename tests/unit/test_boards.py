# SPDX-License-Identifier: BSD-2-Clause
"""Descriptions of boards (baremetal/boards) against what they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools.flash.names import CONTAINERS
from host_tools.flash.pack import BUILDERS, Sources
from host_tools.gpus.family import profile_of
from host_tools.runners.power import model
from tee_replayer import boards
from tee_replayer.target import drivers

BAREMETAL = Path(__file__).resolve().parents[2] / "baremetal"


@pytest.mark.parametrize("name", boards.names())
def test_what_a_board_names_is_there(name: str) -> None:
    board = boards.load(name)
    assert (board.port is None) == (board.optee is not None)
    assert all((BAREMETAL / file).is_file() for file in board.parts)
    if board.port:
        assert (BAREMETAL / f"{board.port}.c").is_file()
        assert (BAREMETAL / f"{board.port}.h").is_file()
    assert CONTAINERS[board.image.kind] in BUILDERS
    assert set(board.image.options) <= vars(Sources()).keys()
    assert board.image.firmware
    if board.gpu:
        assert board.gpu.profile in drivers()
        assert profile_of(board.gpu.virtual).name == board.gpu.profile
        assert not board.gpu.power_model or model(board.gpu.power_model).BOARD is board


def test_real_boards_are_marked() -> None:
    assert [name for name in boards.names() if boards.load(name).is_silicon] == ["hikey960", "rpi4"]
    assert all(bool(boards.load(name).notice) == boards.load(name).is_silicon for name in boards.names())
