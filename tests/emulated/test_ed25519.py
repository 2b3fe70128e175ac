# SPDX-License-Identifier: BSD-2-Clause
"""The firmware's Ed25519 and SHA-512 as machine code of AArch64, in Unicorn: what is odd, alignment and stack.

tests/vgpu/test_ed25519.py has more cases, for the same C on this machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from host_tools.runners import firmware
from tests.support import ed25519_cases as e
from tests.support.bare_metal import COMPILER, require
from tests.support.crypto_seam import DATA, GOOD, STACK, STACK_BYTES, WORD, Seam
from tests.support.sampling import SomeOf
from tests.support.trust_samples import edwards_policy

STACK_LIMIT = 2048  # of the 8 KiB that OP-TEE's core has
Verify = Callable[[e.Case], bool]


@pytest.fixture(scope="module")
def seam() -> Seam:
    require(COMPILER, "gcc-aarch64-linux-gnu")
    return Seam(firmware.build(edwards_policy(), "v3d42").folder, "gr_ed25519_verify", "gr_sha512")


@pytest.fixture(scope="module")
def verify(seam: Seam) -> Verify:
    def verified(case: e.Case) -> bool:
        message, key, signature = DATA + 0x1001, DATA + 0x101, DATA + 0x203  # odd ones, as in a trace
        for place, data in ((message, case.message), (key, case.key), (signature, case.signature)):
            seam.core.mem_write(place, data)
        return seam.call("gr_ed25519_verify", message, len(case.message), key, signature, GOOD) & WORD == GOOD

    return verified


def test_wycheproof(verify: Verify, some_of: SomeOf) -> None:
    wrong = [case.name for case in some_of(list(e.wycheproof()), 30) if verify(case) != case.good]
    assert not wrong


def test_vectors_of_the_authors_and_of_rfc_8032(verify: Verify, some_of: SomeOf) -> None:
    cases = e.authors()
    wrong = [case.name for case in [*cases[:3], *some_of(cases[3:-1], 10), cases[-1]] if not verify(case)]
    assert not wrong


def test_sums_with_exceptions_and_keys_of_mixed_order(verify: Verify, some_of: SomeOf) -> None:
    cases = [*some_of(e.exceptional(), 10), *some_of(e.mixed(), 24)]
    wrong = [case.name for case in cases if verify(case) != case.good]
    assert not wrong


def test_keys_and_numbers_that_are_none(verify: Verify, some_of: SomeOf) -> None:
    wrong = [case.name for case in [*some_of(e.bad_keys(), 40), *e.bad_numbers()] if verify(case)]
    assert not wrong


@pytest.mark.parametrize("size", [0, 1, 47, 48, 63, 64, 65, 111, 112, 127, 128, 129, 5000])
def test_sha512(seam: Seam, size: int) -> None:
    data = bytes(number * 7 & 255 for number in range(64 + size))
    seam.core.mem_write(DATA + 0x301, data[:64])
    seam.core.mem_write(DATA + 0x1001, data[64:])
    with seam.watching() as odd:
        assert seam.call("gr_sha512", DATA + 0x301, DATA + 0x1001, size, DATA + 0x101) & 1
    assert odd == []
    assert bytes(seam.core.mem_read(DATA + 0x101, 64)) == hashlib.sha512(data).digest()


def test_accesses_are_aligned_and_the_stack_is_small(seam: Seam, verify: Verify) -> None:
    seam.core.mem_write(STACK, b"\xa5" * STACK_BYTES)
    with seam.watching() as odd:
        assert verify(e.of_scalars(12345, 6789, message=bytes(300)))
    assert odd == []
    stack = bytes(seam.core.mem_read(STACK, STACK_BYTES))
    assert len(stack.lstrip(b"\xa5")) <= STACK_LIMIT
