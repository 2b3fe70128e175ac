# SPDX-License-Identifier: BSD-2-Clause
"""The firmware's ES256 as machine code of AArch64, in Unicorn: Wycheproof, and sums that are hard to add.

tests/vgpu/test_p256.py has more cases, for the same C on this machine.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support import p256_cases as p
from tests.support.crypto_seam import Seam
from tests.support.firmware_samples import kept
from tests.support.sampling import SomeOf

Verify = Callable[[p.Case], bool]


@pytest.fixture(scope="module")
def seam() -> Seam:
    return Seam(kept("v3d42"))


@pytest.fixture(scope="module")
def verify(seam: Seam) -> Verify:
    return lambda case: seam.verifies("gr_signature_verify", case)


def test_wycheproof(verify: Verify) -> None:
    wrong = [case.name for case in p.wycheproof() if verify(case) != case.good]
    assert not wrong


def test_equal_and_opposite_points_and_infinity(verify: Verify, some_of: SomeOf) -> None:
    wrong = [case.name for case in some_of(p.exceptional(), 100) if verify(case) != case.good]
    assert not wrong


def test_keys_that_are_no_points(verify: Verify) -> None:
    wrong = [case.name for case in p.bad_keys() if verify(case)]
    assert not wrong


def test_accesses_are_aligned(seam: Seam, verify: Verify) -> None:
    with seam.watching() as odd:
        assert verify(p.of_scalars(12345, 6789, 1011))
    assert odd == []
