# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of all test groups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from host_tools.support import progress
from host_tools.support.sandbox import OFF, VARIABLE
from tests.support.recordings import GPUREPLAY, REGISTER_LOGS, folder

pytest_plugins = ["tests.support.cpu_time", "tests.support.json_schemas", "tests.support.sampling"]

os.environ["GRAMOPHONE_WERROR"] = "1"  # tee_replayer/generator/strictness.py, which nothing has imported yet

# Lines on progress depend on how fast the machine is, and what commands print is compared.
progress.LONG_S = progress.SO_FAR_S = 1_000_000


def recordings_or_skip(kind: str) -> Path:
    try:
        return folder(kind)
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def recordings() -> Path:
    """The public GPUReplay recordings, a folder each."""
    return recordings_or_skip(GPUREPLAY)


@pytest.fixture(scope="session")
def mnist_weights(recordings: Path) -> bytes:
    """A .npz file of weights for the recording mnist."""
    path = recordings / "weights" / "mnist.npz"
    if not path.is_file():
        pytest.skip(f"no weights at {path}: they are not public")
    return path.read_bytes()


@pytest.fixture(scope="session")
def register_logs() -> Path:
    """Logs of register accesses, a file each."""
    return recordings_or_skip(REGISTER_LOGS)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of a run of the tests have in common (pytest-xdist's own are inside it)."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture
def without_sandboxes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For ONNX's own tests: a sandbox a kernel takes longer than a case, and all that runs is ONNX's own."""
    monkeypatch.setenv(VARIABLE, OFF)
    yield
    assert os.environ[VARIABLE] == OFF
