# SPDX-License-Identifier: BSD-2-Clause
"""The firmware's SHA-256 as machine code, in Unicorn, on cores with the Armv8 instructions and without."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unicorn import UC_HOOK_BLOCK

from tests.support.crypto_seam import CODE, DATA, DATA_BYTES, Seam
from tests.support.firmware_samples import kept
from tests.support.plain_core import without_features

DIGEST = DATA + DATA_BYTES - 64
CODE_BYTES = 0x10000
Hash = Callable[[bytes, int], bytes]


@pytest.fixture(scope="module")
def folder() -> Path:
    return kept("v3d42")


@pytest.fixture(scope="module", params=("with the instructions", "without them"))
def sha256(request: pytest.FixtureRequest, folder: Path) -> Hash:
    seam = Seam(folder)
    if request.param == "without them":
        seam.core.mem_write(CODE, without_features(bytes(seam.core.mem_read(CODE, CODE_BYTES))))
    used: set[int] = set()
    seam.core.hook_add(UC_HOOK_BLOCK, lambda _core, address, _size, _data: used.add(address))

    def hashed(data: bytes, offset: int) -> bytes:
        used.clear()
        seam.core.mem_write(DATA + offset, data)
        seam.core.mem_write(DIGEST - 1, bytes(34))
        with seam.watching() as odd:
            assert seam.call("gr_sha256", DATA + offset, len(data), DIGEST) & 1
        assert odd == []
        by_instructions = seam.functions["sha256_block_data_order_hw"] in used
        assert by_instructions == (request.param == "with the instructions")
        found = bytes(seam.core.mem_read(DIGEST - 1, 34))
        assert (found[0], found[-1]) == (0, 0)
        return found[1:-1]

    return hashed


def test_every_length(sha256: Hash) -> None:
    """To some blocks and their padding, of which there are one or two."""
    data = random.Random(1).randbytes(260)
    assert [n for n in range(260) if sha256(data[:n], 0) != hashlib.sha256(data[:n]).digest()] == []


@given(st.integers(0), st.integers(0, 2_000), st.integers(0, 15))
def test_against_another_implementation(sha256: Hash, seed: int, size: int, offset: int) -> None:
    data = random.Random(seed).randbytes(size)
    assert sha256(data, offset) == hashlib.sha256(data).digest()
