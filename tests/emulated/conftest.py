# SPDX-License-Identifier: BSD-2-Clause
"""Firmware of boards, compiled once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.firmware_samples import compiled


@pytest.fixture(scope="session")
def rpi4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("rpi4"), "v3d42", "rpi4")


@pytest.fixture(scope="session")
def hikey960(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("hikey960"), "mali_g71", "hikey960")
