# SPDX-License-Identifier: BSD-2-Clause
"""ES256 of each crypto seam against Wycheproof, and against `cryptography` where a group law has exceptions.

tests/emulated/test_p256.py does the same with the firmware's machine code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import cffi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.runners import libraries
from host_tools.support.cache import cache_dir
from signing.curves import KNOWN_ANSWER_KEY, P256_ORDER
from tee_replayer import crypto
from tee_replayer.generator import hostlib
from tests.support import p256_cases as p
from tests.support import replayer_samples as s

GOODS = (0x5AA53CC3, 0xA35C96E1)  # two values of "good", as the core has
WORD = (1 << 32) - 1  # the verdict is the answer's low half
BAD, KNOWN_X = 0x269E0D37, 0x02326C8A  # crypto.h; the second by tests/unit/signing/test_curves.py
FFI = cffi.FFI()
FFI.cdef(
    "uint64_t gr_signature_verify(const uint8_t *digest, const uint8_t *key, const uint8_t *sig, uint32_t good);"
)
OPENSSL = Path("/usr/include/openssl/ec.h")
Verify = Callable[[p.Case], bool]
Answer = Callable[[bytes, bytes, bytes, int], int]


@pytest.fixture(scope="module", params=("s2n-bignum", "BearSSL", "OpenSSL"))
def seam(request: pytest.FixtureRequest) -> tuple[str, Answer]:
    """A seam's name, and what it answers of (digest, key, signature, good)."""
    if request.param == "OpenSSL" and not OPENSSL.exists():
        pytest.skip(f"{OPENSSL} is missing: apt-get install libssl-dev")
    if request.param == "s2n-bignum" and crypto.s2n_machine() is None:
        pytest.skip("s2n-bignum has nothing for this machine")
    both = libraries.source()
    chosen = {"s2n-bignum": both, "BearSSL": crypto.Libraries(both.bearssl), "OpenSSL": None}[request.param]
    library = FFI.dlopen(str(hostlib.build(s.GPU, chosen, cache_dir("replayer"))))
    return request.param, library.gr_signature_verify


@pytest.fixture(scope="module")
def verify(seam: tuple[str, Answer]) -> Verify:
    """A seam's verification, with both of the core's values for good."""
    name, answer = seam

    def verified(case: p.Case) -> bool:
        found = [bool(answer(case.digest, case.key, case.signature, good) & WORD == good) for good in GOODS]
        assert found[0] == found[1]
        if name == "BearSSL" and case.digest == bytes(32):
            assert not found[0]  # it multiplies by no zero; nobody knows what hashes to this
            return case.good
        return found[0]

    return verified


def test_the_known_answer(seam: tuple[str, Answer]) -> None:
    key, (_, answer) = KNOWN_ANSWER_KEY, seam
    digest = hashlib.sha256(key).digest()
    assert answer(digest, key, key[1:], GOODS[0]) == KNOWN_X << 32 | BAD


def test_wycheproof(verify: Verify) -> None:
    cases = list(p.wycheproof())
    assert len(cases) > 200
    assert {case.good for case in cases} == {True, False}
    wrong = [case.name for case in cases if verify(case) != case.good]
    assert not wrong


def test_equal_and_opposite_points_and_infinity(verify: Verify) -> None:
    cases = p.exceptional()
    assert {case.good for case in cases} == {True, False}
    wrong = [case.name for case in cases if not verify(case) == case.good == p.judged(case)]
    assert not wrong


@given(st.builds(p.of_scalars, p.SCALARS, st.one_of(st.just(0), p.SCALARS), p.SCALARS), st.data())
def test_against_another_implementation(verify: Verify, case: p.Case, data: st.DataObject) -> None:
    assert verify(case) == case.good == p.judged(case)
    part = data.draw(st.sampled_from(("digest", "signature")))
    bits = int.from_bytes(getattr(case, part), "big")
    bits ^= 1 << data.draw(st.integers(0, 8 * len(getattr(case, part)) - 1))
    fields = {"digest": case.digest, "signature": case.signature}
    fields[part] = bits.to_bytes(len(fields[part]), "big")
    changed = p.Case("changed", fields["digest"], case.key, fields["signature"], False)
    assert verify(changed) == p.judged(changed)


ENDS = st.one_of(
    st.integers(0, 3), st.integers(P256_ORDER - 3, P256_ORDER + 3), st.sampled_from((p.P, 2**256 - 1))
)


@given(r=ENDS, t=p.SCALARS)
def test_numbers_out_of_range(verify: Verify, r: int, t: int) -> None:
    case = p.of_scalars(7, 11, 13)
    for numbers in ((r, t), (t, r)):
        signature = b"".join(number.to_bytes(32, "big") for number in numbers)
        changed = p.Case("range", case.digest, case.key, signature, False)
        assert verify(changed) == p.judged(changed)


def test_keys_that_are_no_points(verify: Verify) -> None:
    wrong = [case.name for case in p.bad_keys() if verify(case)]
    assert not wrong
