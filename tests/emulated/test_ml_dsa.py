# SPDX-License-Identifier: BSD-2-Clause
"""The firmware's ML-DSA-44 as machine code of AArch64, in Unicorn: Wycheproof, alignment, stack and instructions.

tests/vgpu/test_ml_dsa.py has more, for the same C on this machine.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from host_tools.runners import firmware
from host_tools.runners.needs import ML_DSA_WORKSPACE_BYTES
from tests.support.bare_metal import COMPILER, require
from tests.support.crypto_seam import DATA, STACK, STACK_BYTES, Seam
from tests.support.ml_dsa_cases import Case, wycheproof
from tests.support.trust_samples import hybrid_policy

WORD = (1 << 32) - 1
GOOD = 0x2D7C51A6
NAME = "gr_ml_dsa_verify"
MESSAGE, KEY, SIGNATURE, ROOM = DATA + 1, DATA + 0x8003, DATA + 0x9005, DATA + 0xB008
STACK_LIMIT = 2048  # crypto.h says so
Verify = Callable[[Case], bool]


@pytest.fixture(scope="module")
def seam() -> Seam:
    require(COMPILER, "gcc-aarch64-linux-gnu")
    return Seam(firmware.build(hybrid_policy(), "v3d42").folder, NAME)


@pytest.fixture(scope="module")
def verify(seam: Seam) -> Verify:
    def verified(case: Case) -> bool:
        for place, data in ((MESSAGE, case.message), (KEY, case.key), (SIGNATURE, case.signature)):
            seam.core.mem_write(place, data)
        return seam.call(NAME, MESSAGE, len(case.message), KEY, SIGNATURE, ROOM, GOOD) & WORD == GOOD

    return verified


def test_wycheproof(verify: Verify) -> None:
    wrong = [case.name for case in wycheproof() if verify(case) != case.good]
    assert not wrong


def test_accesses_are_aligned_and_the_stack_is_small(seam: Seam, verify: Verify) -> None:
    case = next(case for case in wycheproof() if case.good)
    mark = b"\xa5" * STACK_BYTES
    seam.core.mem_write(STACK, mark)
    seam.core.mem_write(ROOM - 8, b"\xa5" * (ML_DSA_WORKSPACE_BYTES + 16))
    with seam.watching() as odd:
        assert verify(case)
    assert odd == []
    stack = bytes(seam.core.mem_read(STACK, STACK_BYTES))
    assert len(stack.lstrip(b"\xa5")) <= STACK_LIMIT
    around = (ROOM - 8, ROOM + ML_DSA_WORKSPACE_BYTES)
    assert [bytes(seam.core.mem_read(at, 8)) for at in around] == [b"\xa5" * 8] * 2
