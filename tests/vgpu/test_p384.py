# SPDX-License-Identifier: BSD-2-Clause
"""ES384 of each crypto seam against Wycheproof, and where a group law has exceptions.

tests/emulated/test_p384.py does the same with the firmware's machine code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cffi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.runners import libraries
from host_tools.support.cache import cache_dir
from tee_replayer import crypto
from tee_replayer.generator import hostlib
from tests.support import p384_cases as p
from tests.support import replayer_samples as s

GOODS = (0x5AA53CC3, 0xA35C96E1)  # two values of "good", as the core has
FFI = cffi.FFI()
FFI.cdef(
    "bool gr_sha384(const void *data, size_t bytes, uint8_t *digest);"
    "uint32_t gr_es384_verify(const uint8_t *digest, const uint8_t *key, const uint8_t *sig, uint32_t good);"
)
OPENSSL = Path("/usr/include/openssl/ec.h")
Verify = Callable[[p.Case], bool]


@pytest.fixture(scope="module", params=("s2n-bignum", "OpenSSL"))
def library(request: pytest.FixtureRequest) -> Any:
    if request.param == "OpenSSL" and not OPENSSL.exists():
        pytest.skip(f"{OPENSSL} is missing: apt-get install libssl-dev")
    if request.param == "s2n-bignum" and crypto.s2n_machine() is None:
        pytest.skip("s2n-bignum has nothing for this machine")
    chosen = libraries.source() if request.param == "s2n-bignum" else None
    return FFI.dlopen(str(hostlib.build(s.GPU, chosen, cache_dir("replayer"), trust=True)))


@pytest.fixture(scope="module")
def verify(library: Any) -> Verify:
    """A seam's verification, with both of the core's values for good."""

    def verified(case: p.Case) -> bool:
        found = [library.gr_es384_verify(case.digest, case.key, case.signature, good) for good in GOODS]
        assert [one == good for one, good in zip(found, GOODS, strict=True)] in ([True] * 2, [False] * 2)
        return bool(found[0] == GOODS[0])

    return verified


def test_wycheproof(verify: Verify) -> None:
    cases = list(p.wycheproof())
    assert len(cases) > 200
    assert {case.good for case in cases} == {True, False}
    wrong = [case.name for case in cases if verify(case) != case.good]
    assert not wrong


def test_equal_and_opposite_points_and_infinity(verify: Verify) -> None:
    cases = p.exceptional()
    assert {case.good for case in cases} == {True, False}
    wrong = [case.name for case in cases if verify(case) != case.good]
    assert not wrong


@given(st.builds(p.of_scalars, p.SCALARS, st.one_of(st.just(0), p.SCALARS), p.SCALARS), st.data())
def test_sums_and_changes(verify: Verify, case: p.Case, data: st.DataObject) -> None:
    assert verify(case) == case.good
    signature = bytearray(case.signature)
    signature[data.draw(st.integers(0, 95))] ^= 1 << data.draw(st.integers(0, 7))
    assert not verify(p.Case("changed", case.digest, case.key, bytes(signature), False)) or not case.good


def test_keys_and_numbers_that_are_none(verify: Verify) -> None:
    wrong = [case.name for case in [*p.bad_keys(), *p.out_of_range()] if verify(case)]
    assert not wrong


@given(st.binary(max_size=600))
def test_sha384(library: Any, data: bytes) -> None:
    digest = FFI.new("uint8_t[48]")
    assert library.gr_sha384(data, len(data), digest)
    assert bytes(digest) == hashlib.sha384(data).digest()
