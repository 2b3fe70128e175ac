# SPDX-License-Identifier: BSD-2-Clause
"""The newest versions of the libraries that read and check envelopes: constraints.txt may be behind.

`make setup` has cbor2 5, since other people's COSE libraries need it; a user's pip takes the newest. With
`--exhaustive`: it needs an index and nothing of ours changes it. With `make test` the same tests, which begin with
tests/unit/signing/test_envelope.py, run with the versions of constraints.txt.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.test_wheel import pip
from tests.support.places import CHECKOUT

# Of these, every test decodes or encodes CBOR, or runs the program of docs/FORMAT.md.
TESTS = (
    "tests/unit/signing/test_envelope.py",
    "tests/unit/commands/test_sign.py",
    "tests/unit/commands/test_sign_keys.py",
    "tests/unit/trace_format/test_emit.py",
)
ONLY = "not kaitai and not flipped"


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("newest")
    pip("install", "--upgrade", "--target", folder, "cbor2", "cryptography", cwd=folder)
    return folder


@pytest.mark.exhaustive
def test_envelopes_with_the_newest_libraries(newest: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(newest)}
    asked = "import cbor2, importlib.metadata as m; print(m.version('cbor2'), cbor2.__file__)"
    where = subprocess.run(
        [sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True
    )
    assert int(where.stdout.split(".")[0]) >= 6, where.stdout
    assert str(newest) in where.stdout
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", ONLY, *TESTS]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
