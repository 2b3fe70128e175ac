# SPDX-License-Identifier: BSD-2-Clause
"""Which instructions command streams of a trace may have, as the profile says."""

from __future__ import annotations

import pytest

from trace_format import profile
from trace_format.stream_rules import StreamRules


@pytest.fixture
def rules() -> StreamRules:
    found = profile.load("mali_g610").streams
    assert found is not None
    return found


def test_seven_instructions(rules: StreamRules) -> None:
    assert len(rules.opcodes) == 7
    for number, bits in rules.opcodes.values():
        allowed = bits & ~(0xFF << 48) | (91 & bits >> 48) << 48
        assert rules.flaw(number << 56 | allowed) == ""
        assert "bits 0x" in rules.flaw(number << 56 | ~bits & (1 << 56) - 1)


def test_other_opcodes(rules: StreamRules) -> None:
    known = {number for number, _ in rules.opcodes.values()}
    for number in set(range(256)) - known:
        assert rules.flaw(number << 56) == f"opcode {number}, which no trace may use"


@pytest.mark.parametrize("register", [92, 94, 95, 96, 255])
def test_the_drivers_registers(rules: StreamRules, register: int) -> None:
    assert rules.flaw(2 << 56 | register << 48) == f"register {register}, which is the driver's"
    assert rules.flaw(2 << 56 | 91 << 48) == ""


def test_other_gpus_have_no_streams() -> None:
    assert [name for name in profile.names() if profile.load(name).streams] == ["mali_g610"]
