# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of the tests that need QEMU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from host_tools.machine.boot import QEMU
from host_tools.machine.errors import RecordError
from host_tools.machine.root import RecordRoot, ready_root
from host_tools.vgpu import build
from tests.support import vgpu_model
from tests.support.bare_metal import Run, require, run_program
from tests.support.guest_programs import compile_vadd


@pytest.fixture(scope="session")
def plugin() -> Path:
    """The plugin with the test double as compute engine."""
    require(build.QEMU, "qemu-system-arm")
    return build.qemu_plugin(double=vgpu_model.ENGINE_DOUBLE)


@pytest.fixture
def run(plugin: Path, tmp_path: Path) -> Callable[..., Run]:
    """bare_metal.run_program with that plugin."""
    return functools.partial(run_program, plugin, tmp_path)


@pytest.fixture(scope="session")
def root() -> RecordRoot:
    """What the recording machine boots."""
    require(QEMU, "qemu-system-arm")
    try:
        return ready_root()
    except RecordError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def vadd(root: RecordRoot, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Vulkan program for the guest."""
    return compile_vadd(root, tmp_path_factory.mktemp("vadd"))
