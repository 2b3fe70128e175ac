# SPDX-License-Identifier: BSD-2-Clause
"""Firmware of boards, compiled once, and their images."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from host_tools.flash.pack import Sources, pack
from host_tools.runners import unicorn
from host_tools.runners.caches.machine import CheckedMachine
from host_tools.vgpu.binding import VirtualGpu
from tests.support.firmware_samples import kept
from tests.support.image_samples import GPUS, Packed, sample


@pytest.fixture(scope="session")
def rpi4() -> Path:
    return kept("v3d42", "rpi4")


@pytest.fixture(scope="session")
def hikey960() -> Path:
    return kept("mali_g71", "hikey960")


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Packed]:
    """The sample image of a platform, made once."""

    def packed(platform: str) -> Packed:
        folder = tmp_path_factory.mktemp(platform)
        out = Path(shutil.copytree(kept(GPUS[platform], platform), folder / "out"))
        (folder / "net.sgtr").write_bytes(sample(platform, folder))
        return Packed(out, *pack(out, Sources([folder / "net.sgtr"])))

    return functools.cache(packed)


@pytest.fixture(params=GPUS)
def packed(request: pytest.FixtureRequest, images: Callable[[str], Packed]) -> Packed:
    """The sample images of all platforms, one after the other."""
    return images(request.param)


@pytest.fixture
def checked_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Firmware runs under the checker of caches and order: what breaks a rule fails the run."""
    monkeypatch.setattr(unicorn, "Machine", CheckedMachine)
    defaults = VirtualGpu.__init__.__kwdefaults__
    assert defaults
    monkeypatch.setitem(defaults, "track_access", True)
