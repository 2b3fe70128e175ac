# SPDX-License-Identifier: BSD-2-Clause
"""What a rule about operations finds in a shader, and what it does not."""

from __future__ import annotations

import dataclasses

import pytest

from host_tools.gpus.mali.rules import RuleError, apply, retarget
from host_tools.gpus.mali.rules.file import OperationRule, load
from host_tools.gpus.mali.rules.shaders import refused
from host_tools.model.job_names import NOTE
from tests.support.mali_rules import OPERATION, rules
from tests.support.networks import COMMITTED
from trace_format import profile
from trace_format.actions import Op, actions_of
from trace_format.trace import Trace

RULE = OperationRule("odd", "why", "whence", frozenset(), (), (), (), frozenset())
TARGETS = ("mali_g72", "mali_g52r1", "mali_g31")


@pytest.fixture(scope="module")
def lenet() -> Trace:
    return Trace.read(COMMITTED["mali_g71"])


def found(trace: Trace, **about: object) -> str:
    """What the rules from a G71 say of its recording, with one more about these operations."""
    known = load("mali_g71", "mali_g72")
    rule = dataclasses.replace(RULE, **about)  # type: ignore[arg-type]
    try:
        apply(trace, dataclasses.replace(known, rules=(*known.rules, rule)))
    except RuleError as error:
        return str(error)
    return ""


def test_by_name(lenet: Trace) -> None:
    said = found(lenet, names=frozenset({"FRCP_APPROX.f32"}))
    assert said.startswith("action ")
    assert "rule odd: +FRCP_APPROX.f32 [0x0670" in said
    assert said.endswith(": why")
    assert not found(lenet, names=frozenset({"FRCP.f32", "ATOM_C.i32"}))


def test_the_layer_is_named(lenet: Trace) -> None:
    named = lenet.with_(notes={**lenet.notes, NOTE: [f"layer {number}" for number in range(lenet.jobs)]})
    said = found(named, names=frozenset({"FRCP_APPROX.f32"}))
    assert " (layer " in said.partition(": rule odd: ")[0]


def test_by_encoding(lenet: Trace) -> None:
    assert "rule odd: *FMA.f32 [0x0" in found(lenet, fma=((0, 0x600000),))
    assert "rule odd: +FADD.f32 [0x02" in found(lenet, add=((0x20000, 0xF0000),))
    assert not found(lenet, fma=((0, 0x600000),), but=((0, 0x600000),))
    assert not found(lenet, add=((0xFFFFF, 0xFFFFF),))


def test_by_operand(lenet: Trace) -> None:
    """Zero is an operand of each network's; no lane asks for its number in this one."""
    assert "rule odd: #0 as an operand of " in found(lenet, operands=frozenset({"#0"}))
    assert not found(lenet, operands=frozenset({"lane_id", "warp_id", "core_id"}))


def test_code_that_is_none() -> None:
    assert refused(lambda at, size: b"\xff" * size, 64, [RULE]).startswith(
        "the shader at 0x40: the clause at 0x40:"
    )
    assert refused(lambda at, size: bytes(size), 64, [RULE]) == ""


def test_in_a_file() -> None:
    (rule,) = rules(OPERATION).rules
    assert isinstance(rule, OperationRule)
    assert rule.names == {"FRCP_APPROX.f32"}
    assert rule.operands == {"lane_id"}
    assert (rule.fma, rule.add, rule.but) == (
        ((0x200000, 0x7E0000),),
        ((0x20000, 0xF0000),),
        ((0x200001, 0x7FFFFF),),
    )


# --- the rules that ship, on a recording


@pytest.mark.parametrize("target", TARGETS)
def test_cores_are_those_that_both_have(target: str, lenet: Trace) -> None:
    new, applied = retarget(lenet, target)
    most = profile.load(target).register("gpu.SHADER_PRESENT_LO").reset
    assert new.meta["core_mask"] == lenet.meta["core_mask"] & most == most
    on = {row.value for row in actions_of(new.actions) if row.op == Op.REG_WRITE and "AFFINITY" in name(new, row)}
    assert on == {0, most}
    waits = [row for row in actions_of(new.actions) if name(new, row) == "gpu.SHADER_READY_LO"]
    assert waits
    assert all(row.value & ~most == 0 for row in waits)
    assert new.va_bytes == min(lenet.va_bytes, 1 << profile.load(target).mmu["va_bits"])
    places = {rule.rule: rule.places for rule in applied}
    assert min(places[rule] for rule in ("cores", "identity", "job-manager-settings")) > 0
    assert not {"GPU_ID", "JM_CONFIG"} & {name(new, row).rpartition(".")[2] for row in actions_of(new.actions)}
    assert new.image == lenet.image, "one instruction set, and no choice of registers on a G71"


def name(trace: Trace, row: object) -> str:
    register = getattr(row, "register", None)
    return trace.profile.describe(register * 4) if isinstance(register, int) else ""


def test_how_many_threads_have_storage_is_still_checked(lenet: Trace) -> None:
    """A chip with more threads a core than were recorded would write beyond their storage."""
    new, _ = retarget(lenet, "mali_g52r1")
    read = {name(new, row) for row in actions_of(new.actions) if row.op == Op.REG_READ_ONCE}
    assert {"gpu.THREAD_MAX_THREADS", "gpu.THREAD_TLS_ALLOC"} <= read


def test_what_a_g71_needs_and_nobody_wrote(lenet: Trace) -> None:
    moved, _ = retarget(lenet, "mali_g72")
    with pytest.raises(
        RuleError, match=r"never writes gpu\.JM_CONFIG, which Arm Mali G71 needs \(a G71 does not say"
    ):
        retarget(moved, "mali_g71")
