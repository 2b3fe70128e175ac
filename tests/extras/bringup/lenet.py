# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of this folder have in common: an input of the digits' network, and the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from click.testing import CliRunner, Result

from host_tools.cli import main

X = np.random.default_rng(61).random((1, 28, 28), dtype=np.float32)


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)


def given(folder: Path) -> tuple[object, ...]:
    return "--input", f"data={folder / 'x.npy'}"
