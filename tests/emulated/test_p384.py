# SPDX-License-Identifier: BSD-2-Clause
"""The firmware's ES384 and SHA-384 as machine code of AArch64, in Unicorn: Wycheproof, sums that are hard to add,
alignment and stack.

tests/vgpu/test_p384.py has more cases, for the same C on this machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from host_tools.runners import firmware
from tests.support import p384_cases as p
from tests.support.bare_metal import COMPILER, require
from tests.support.crypto_seam import DATA, STACK, STACK_BYTES, Seam
from tests.support.sampling import SomeOf
from tests.support.trust_samples import wide_policy

STACK_LIMIT = 2560  # of the 8 KiB that OP-TEE's core has
Verify = Callable[[p.Case], bool]


@pytest.fixture(scope="module")
def seam() -> Seam:
    require(COMPILER, "gcc-aarch64-linux-gnu")
    return Seam(firmware.build(wide_policy(), "v3d42").folder, "gr_es384_verify", "gr_sha384")


@pytest.fixture(scope="module")
def verify(seam: Seam) -> Verify:
    return lambda case: seam.verifies("gr_es384_verify", case)


def test_wycheproof(verify: Verify, some_of: SomeOf) -> None:
    wrong = [case.name for case in some_of(list(p.wycheproof()), 30) if verify(case) != case.good]
    assert not wrong


def test_equal_and_opposite_points_and_infinity(verify: Verify, some_of: SomeOf) -> None:
    wrong = [case.name for case in some_of(p.exceptional(), 60) if verify(case) != case.good]
    assert not wrong


def test_keys_and_numbers_that_are_none(verify: Verify) -> None:
    wrong = [case.name for case in [*p.bad_keys(), *p.out_of_range()] if verify(case)]
    assert not wrong


@pytest.mark.parametrize("size", [0, 1, 111, 112, 113, 127, 128, 129, 239, 240, 256, 5000])
def test_sha384(seam: Seam, size: int) -> None:
    data = bytes(number * 7 & 255 for number in range(size))
    seam.core.mem_write(DATA + 0x1001, data)
    with seam.watching() as odd:
        assert seam.call("gr_sha384", DATA + 0x1001, size, DATA + 0x101) & 1
    assert odd == []
    assert bytes(seam.core.mem_read(DATA + 0x101, 48)) == hashlib.sha384(data).digest()


def test_accesses_are_aligned_and_the_stack_is_small(seam: Seam, verify: Verify) -> None:
    seam.core.mem_write(STACK, b"\xa5" * STACK_BYTES)
    with seam.watching() as odd:
        assert verify(p.of_scalars(12345, 6789, 1011))
    assert odd == []
    stack = bytes(seam.core.mem_read(STACK, STACK_BYTES))
    assert len(stack.lstrip(b"\xa5")) <= STACK_LIMIT
