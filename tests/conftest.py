"""Fixtures of all test groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("gramophone", deadline=None)  # tests are not timed: the machine is shared
settings.load_profile("gramophone")


@pytest.fixture(scope="session")
def recordings() -> Path:
    """The shared recordings of real GPU stacks."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "recordings"
    if not folder.is_dir():
        pytest.skip(f"no recordings at {folder}: they are shared next to the checkout, not part of it")
    return folder


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of a run of the tests have in common (pytest-xdist's own are inside it)."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
