# SPDX-License-Identifier: BSD-2-Clause
"""Ed25519 of the crypto seam against Wycheproof, its authors' vectors, and OpenSSL for what is odd.

tests/emulated/test_ed25519.py does the same with the firmware's machine code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import cffi
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import given
from hypothesis import strategies as st

from host_tools.runners import libraries
from host_tools.support.cache import cache_dir
from tee_replayer import crypto
from tee_replayer.generator import hostlib
from tests.support import ed25519_cases as e
from tests.support import replayer_samples as s

GOODS = (0x5AA53CC3, 0xA35C96E1)  # two values of "good", as the core has
FFI = cffi.FFI()
FFI.cdef(
    "bool gr_sha512(const uint8_t *first, const void *data, size_t bytes, uint8_t *digest);"
    "uint32_t gr_ed25519_verify(const uint8_t *message, size_t bytes, const uint8_t *key, const uint8_t *sig,"
    "                           uint32_t good);"
)
Verify = Callable[[e.Case], bool]
FEW = [1, 2, 3, 4, 5, 8, 255, 1 << 192, 1 << 251, (e.N - 1) // 2, (e.N + 1) // 2]
SCALARS = st.one_of(st.sampled_from([*FEW, *(e.N - few for few in FEW)]), st.integers(1, e.N - 1))


@pytest.fixture(scope="module")
def library() -> Any:
    if crypto.s2n_machine() is None:
        pytest.skip("s2n-bignum has nothing for this machine")
    return FFI.dlopen(str(hostlib.build(s.GPU, libraries.source(), cache_dir("replayer"), trust=True)))


@pytest.fixture(scope="module")
def verify(library: Any) -> Verify:
    """The seam's verification, with both of the core's values for good."""

    def verified(case: e.Case) -> bool:
        taken = case.message, len(case.message), case.key, case.signature
        found = [library.gr_ed25519_verify(*taken, good) for good in GOODS]
        assert [one == good for one, good in zip(found, GOODS, strict=True)] in ([True] * 2, [False] * 2)
        return bool(found[0] == GOODS[0])

    return verified


def test_wycheproof(verify: Verify) -> None:
    cases = list(e.wycheproof())
    assert len(cases) > 190
    assert {case.good for case in cases} == {True, False}
    wrong = [case.name for case in cases if verify(case) != case.good]
    assert not wrong


def test_vectors_of_the_authors_and_of_rfc_8032(verify: Verify) -> None:
    cases = e.authors()
    assert len(cases) == 1024
    wrong = [case.name for case in cases if not verify(case)]
    assert not wrong


def test_sums_with_exceptions(verify: Verify) -> None:
    wrong = [case.name for case in e.exceptional() if not case.good or not verify(case)]
    assert not wrong


def test_the_cofactor_is_not_multiplied_by(verify: Verify) -> None:
    """A key of mixed order is good for some messages, and for the same ones as on the host."""
    cases = e.mixed()
    assert {case.good for case in cases} == {True, False}
    wrong = [case.name for case in cases if verify(case) != case.good]
    assert not wrong


def test_keys_and_numbers_that_are_none(verify: Verify) -> None:
    wrong = [case.name for case in [*e.bad_keys(), *e.bad_numbers()] if verify(case)]
    assert not wrong


def test_the_host_refuses_them_too() -> None:
    cases = [*e.bad_keys(), *e.bad_numbers()]
    wrong = [case.name for case in cases if e.host(case.key, case.signature, case.message)]
    assert not wrong


@given(SCALARS, st.one_of(st.just(0), SCALARS), st.integers(0, 7), st.integers(0, 7), st.binary(max_size=300))
def test_any_key_and_nonce_as_on_the_host(
    verify: Verify, secret: int, nonce: int, in_key: int, in_r: int, message: bytes
) -> None:
    case = e.of_scalars(secret, nonce, in_key, in_r, message)
    assert verify(case) == case.good


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=300), st.integers(0, 95), st.integers(0, 7))
def test_signatures_and_changes(verify: Verify, seed: bytes, message: bytes, at: int, bit: int) -> None:
    private = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
    key = private.public_key().public_bytes_raw()
    both = bytearray(key + private.sign(message))
    assert verify(e.Case("", message, key, bytes(both[32:]), True))
    both[at] ^= 1 << bit
    assert not verify(e.Case("", message, bytes(both[:32]), bytes(both[32:]), False))


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=64, max_size=64))
def test_any_bytes_as_on_the_host(verify: Verify, key: bytes, signature: bytes) -> None:
    assert verify(e.Case("", b"", key, signature, False)) == e.host(key, signature, b"")


@given(st.binary(min_size=64, max_size=64), st.binary(max_size=600))
def test_sha512(library: Any, first: bytes, data: bytes) -> None:
    digest = FFI.new("uint8_t[64]")
    assert library.gr_sha512(first, data, len(data), digest)
    assert bytes(digest) == hashlib.sha512(first + data).digest()
