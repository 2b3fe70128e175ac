# SPDX-License-Identifier: BSD-2-Clause
"""Both crypto libraries give the same verdicts: the firmware's BearSSL, and OpenSSL on hosts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from host_tools.support.cache import cache_dir
from signing.curves import P256_ORDER
from tee_replayer.generator import hostlib
from tee_replayer.generator.status import ReplayError
from tests.support import replayer_samples as s

HEADER = Path("/usr/include/openssl/ec.h")
GOOD = s.signed(s.trace())
SIGNATURE_END = 32 + 92  # of the signed header and the envelope


def verdict(library: Path, data: bytes) -> str:
    """Name of the status that a load ends with."""
    gpu = s.Registers()
    replayer = hostlib.HostReplayer(
        library, gpu.gpu, gpu.c_interface, bytearray(s.CARVEOUT_BYTES), s.CARVEOUT_PHYS
    )
    try:
        return replayer.load(data, s.KEY).name
    except ReplayError as error:
        return error.report.name


@pytest.fixture(scope="module")
def openssl() -> Path:
    if not HEADER.exists():
        pytest.skip(f"{HEADER} is missing: apt-get install libssl-dev")
    return hostlib.build(s.GPU, None, cache_dir("replayer"))


def test_a_good_signature(openssl: Path) -> None:
    assert verdict(openssl, GOOD) == verdict(s.library(), GOOD) == "OK"


def test_flipped_bits(openssl: Path) -> None:
    """All bytes of the signature, and some of what it covers."""
    behind = random.Random(1).sample(range(SIGNATURE_END, len(GOOD)), 60)
    for at in (*range(SIGNATURE_END - 64, SIGNATURE_END), *behind):
        bad = bytearray(GOOD)
        bad[at] ^= 1 << at % 8
        assert verdict(openssl, bytes(bad)) == verdict(s.library(), bytes(bad)) != "OK", f"byte {at}"


@pytest.mark.parametrize("r", [0, 1, (1 << 256) - 1])
@pytest.mark.parametrize("t", [0, 1, (1 << 256) - 1])
def test_signatures_out_of_range(openssl: Path, r: int, t: int) -> None:
    bad = bytearray(GOOD)
    bad[SIGNATURE_END - 64 : SIGNATURE_END] = r.to_bytes(32, "big") + t.to_bytes(32, "big")
    expected = "SIGNATURE" if t <= P256_ORDER // 2 else "ENVELOPE"
    assert verdict(openssl, bytes(bad)) == verdict(s.library(), bytes(bad)) == expected
