# SPDX-License-Identifier: BSD-2-Clause
"""`prove` and `bringup`: a file that is missing, damaged or something else is one sentence with its name."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from host_tools.support.tensors import npy
from signing import key_files
from tests.extras.bringup.lenet import run
from tests.support.replayer_samples import ES256, KEY, signed
from tests.support.small_jobs import INPUT, OUTPUT, small

TRACE = small(("add", INPUT, INPUT, OUTPUT))
BAD = {
    "empty": b"",
    "noise": random.Random(61).randbytes(5000),
    "cut": TRACE.build()[:200],
    "damaged": TRACE.build()[:-9] + b"123456789",
    "an array": npy(np.zeros(3, np.float32)),
}
COMMANDS = {
    "prove make BAD -o probe.gtr": ("empty", "noise", "cut", "damaged", "an array"),
    "prove make net.gtr --input in=BAD -o probe.gtr": ("empty", "noise", "cut", "an array"),
    "prove run BAD --key pub.pem": ("empty", "noise", "cut", "damaged", "an array"),
    "prove run net.sgtr --key BAD": ("empty", "noise", "cut", "an array"),
    "prove read BAD x": ("empty", "noise", "cut", "damaged", "an array"),
    "bringup make out BAD --signing-key key.pem -o kit": ("empty", "noise", "cut", "damaged", "an array"),
    "bringup read BAD x": ("empty",),
    "bringup run BAD -o out.txt": ("empty",),
    "bringup make BAD net.gtr --signing-key key.pem -o kit": ("empty",),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with good files."""
    monkeypatch.chdir(tmp_path)
    Path("net.gtr").write_bytes(TRACE.build())
    Path("net.sgtr").write_bytes(signed(TRACE))
    Path("pub.pem").write_bytes(KEY.pem())
    Path("key.pem").write_bytes(key_files.private_pem(ES256.key))
    Path("out").mkdir()
    Path("out/device.toml").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "what"), [(line, what) for line, kinds in COMMANDS.items() for what in ("missing", *kinds)]
)
def test_a_bad_file_is_named(here: Path, line: str, what: str) -> None:
    if "make out" in line:
        Path("out/device.toml").write_text(DEVICE)
    if what != "missing":
        Path("BAD").write_bytes(BAD[what])
    before = sorted(here.rglob("*"))
    done = run(*line.split())
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("error: ")
    assert "BAD" in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(here.rglob("*")) == before


DEVICE = """gpu = "v3d42"
platform = "qemu-virt"
key_id = "1ec31924dd850cdf85933bdcc25911b1"
profile = "plain"
min_security_version = 0
carveout_bytes = 268435456
mmu = false
"""
