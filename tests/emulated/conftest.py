# SPDX-License-Identifier: BSD-2-Clause
"""Firmware of boards, compiled once, and their images."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.firmware_samples import compiled
from tests.support.image_samples import GPUS, Packed, pack_sample


@pytest.fixture(scope="session")
def rpi4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("rpi4"), "v3d42", "rpi4")


@pytest.fixture(scope="session")
def hikey960(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("hikey960"), "mali_g71", "hikey960")


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Packed]:
    """The sample image of a platform, made once."""
    return functools.cache(lambda platform: pack_sample(platform, tmp_path_factory.mktemp(platform)))


@pytest.fixture(params=GPUS)
def packed(request: pytest.FixtureRequest, images: Callable[[str], Packed]) -> Packed:
    """The sample images of all platforms, one after the other."""
    return images(request.param)
