# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of the device tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import vgpu_model
from tests.support.vgpu_model import Board


@pytest.fixture
def board() -> Iterator[Callable[..., Board]]:
    """Makes boards: a virtual GPU with the test double, memory, and the MMU on (see vgpu_model.Board)."""
    boards: list[Board] = []

    def make(**options: Any) -> Board:
        boards.append(vgpu_model.Board(**options))
        return boards[-1]

    yield make
    for made in boards:
        made.gpu.close()
