# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of the device tests."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from host_tools.vgpu import build
from tests.support import vgpu_model
from tests.support.vgpu_model import Board


@pytest.fixture(scope="package", autouse=True)
def looked_up_once() -> Iterator[None]:
    """The virtual GPU's library: to hash its sources, for each GPU that is made, takes longer than many tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "library", functools.cache(build.library))
        yield


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
