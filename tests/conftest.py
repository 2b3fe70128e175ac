"""Fixtures of all test groups. Its presence puts this folder on the import path, for the helper modules in it."""

from __future__ import annotations

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
        pytest.skip(f"no recordings at {folder}: they are shared beside the checkout, not part of it")
    return folder
