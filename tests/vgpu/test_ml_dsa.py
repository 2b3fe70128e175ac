# SPDX-License-Identifier: BSD-2-Clause
"""ML-DSA-44 of the crypto seam against Wycheproof, and against `cryptography`, which has OpenSSL's.

tests/emulated/test_ml_dsa.py does the same with the firmware's machine code.
"""

from __future__ import annotations

from collections.abc import Callable

import cffi
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import mldsa
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools.runners.needs import ML_DSA_WORKSPACE_BYTES
from tee_replayer import crypto
from tests.support import replayer_samples as s
from tests.support.ml_dsa_cases import SIGNATURE_BYTES, Case, wycheproof

GOODS = (0x2D7C51A6, 0x5AA53CC3)
FFI = cffi.FFI()
FFI.cdef(
    "uint32_t gr_ml_dsa_verify(const uint8_t *message, size_t bytes, const uint8_t *key, const uint8_t *signature,"
    " void *workspace, uint32_t good);"
)
KEY = mldsa.MLDSA44PrivateKey.from_seed_bytes(bytes(range(32)))
Verify = Callable[[Case], bool]


@pytest.fixture(scope="module")
def verify() -> Verify:
    if crypto.s2n_machine() is None:
        pytest.skip("s2n-bignum has nothing for this machine")
    library = FFI.dlopen(str(s.library(trust=True)))
    room = FFI.new("uint64_t[]", ML_DSA_WORKSPACE_BYTES // 8 + 2)

    def verified(case: Case) -> bool:
        room[0] = room[ML_DSA_WORKSPACE_BYTES // 8 + 1] = 0x5AFE
        arguments = case.message, len(case.message), case.key, case.signature
        found = [library.gr_ml_dsa_verify(*arguments, room + 1, good) for good in GOODS]
        assert room[0] == room[ML_DSA_WORKSPACE_BYTES // 8 + 1] == 0x5AFE
        assert [one == good for one, good in zip(found, GOODS, strict=True)] in ([True] * 2, [False] * 2)
        return bool(found[0] == GOODS[0])

    return verified


def test_wycheproof(verify: Verify) -> None:
    cases = list(wycheproof())
    assert {case.good for case in cases} == {True, False}
    assert len(cases) > 25
    wrong = [case.name for case in cases if verify(case) != case.good]
    assert not wrong


@given(st.binary(max_size=5000), st.data())
@settings(deadline=None)
def test_against_another_implementation(verify: Verify, message: bytes, data: st.DataObject) -> None:
    """What it signs is good; what is changed is judged alike."""
    public = KEY.public_key()
    good = Case("good", message, public.public_bytes_raw(), KEY.sign(message), True)
    assert verify(good)
    changed = bytearray(good.signature)
    changed[data.draw(st.integers(0, SIGNATURE_BYTES - 1))] ^= data.draw(st.integers(1, 255))
    try:
        public.verify(bytes(changed), message)
        expected = True
    except InvalidSignature:
        expected = False
    assert verify(Case("changed", message, good.key, bytes(changed), False)) == expected
    assert not verify(Case("longer", message + b"\0", good.key, good.signature, False))
