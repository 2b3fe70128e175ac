# SPDX-License-Identifier: BSD-2-Clause
"""Traces with a good signature that do what no trace may: the replayer's core refuses them.

The host build of the core stands in for the device. `sign_trace` would not sign what the format forbids, so traces
are changed in place, their chunks hashed again, and the head signed directly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest

from host_tools import runners
from host_tools.demo import RAW
from host_tools.passes.pipeline import build
from host_tools.runners import vgpu
from host_tools.runners.replay import ReplayRequest, ReplayResult
from signing import envelope
from signing.curves import lowered
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from trace_format import layout
from trace_format.actions import ACTION_DTYPE, ACTIONS, Actions, Op, action
from trace_format.schema import HASH_BYTES, PAGE_BYTES, SectionType, SlotKind
from trace_format.schema.report import Phase
from trace_format.trace import Trace

SLOT_ADDRESS_AT = 40  # docs/FORMAT.md, slot
# A register's bits that must be set; with a partial mask, they depend on its value.
JUDGED_WHEN_RUN = ("mmu_switched_off", "mmu_without_its_faults")
CASES: dict[str, tuple[str, Callable[[Trace, Actions], None]]] = {}


def case(status: str) -> Callable[[Callable[[Trace, Actions], None]], Callable[[Trace, Actions], None]]:
    """A way to spoil the actions, and the status with which they are refused."""

    def add(edit: Callable[[Trace, Actions], None]) -> Callable[[Trace, Actions], None]:
        CASES[edit.__name__] = status, edit
        return edit

    return add


def first(actions: Actions, op: Op) -> int:
    """Index of the first action of a kind."""
    return int(np.flatnonzero(actions["op"] == op)[0])


def write(trace: Trace, actions: Actions, register: str, value: int, mask: int = 0xFFFFFFFF) -> None:
    """Make the first register write another one."""
    at = first(actions, Op.REG_WRITE)
    actions[at] = (Op.REG_WRITE, 0, trace.profile.register(register).index, value, mask, 0)


@case("REGISTER")
def page_table_base(trace: Trace, actions: Actions) -> None:
    write(trace, actions, "hub.MMU_PT_PA_BASE", 0)


@case("REGISTER")
def cap_of_the_page_table(trace: Trace, actions: Actions) -> None:
    write(trace, actions, "hub.MMU_ADDR_CAP", 0)


@case("REGISTER")
def reset_of_the_gpu(trace: Trace, actions: Actions) -> None:
    write(trace, actions, "bridge.SW_INIT_1", 1)


@case("REGISTER")
def register_that_is_read_only(trace: Trace, actions: Actions) -> None:
    write(trace, actions, "core0.CTL_IDENT0", 1)


@case("REGISTER")
def bits_outside_the_policy(trace: Trace, actions: Actions) -> None:
    write(trace, actions, "core0.CTL_MISCCFG", 0x10)


@case("REGISTER")
def bits_outside_the_policy_by_a_mask(trace: Trace, actions: Actions) -> None:
    write(trace, actions, "core0.CTL_L2TCACTL", 0x8, mask=0x8)


@case("REGISTER")
def mmu_switched_off(trace: Trace, actions: Actions) -> None:
    write(trace, actions, "hub.MMU_CTL", 0x060D0C00)


@case("REGISTER")
def mmu_without_its_faults(trace: Trace, actions: Actions) -> None:
    write(trace, actions, "hub.MMU_CTL", 0x00000001)


@case("REGISTER")
def kept_value_to_a_forbidden_register(trace: Trace, actions: Actions) -> None:
    at = first(actions, Op.REG_WRITE)
    actions[at] = (Op.REG_WRITE_KEPT, 0, trace.profile.register("hub.MMU_PT_PA_BASE").index, 0, 0, 0)


@case("REGISTER")
def register_that_is_not_there(trace: Trace, actions: Actions) -> None:
    actions["arg"][first(actions, Op.REG_READ_ONCE)] = 0xFFFF


@case("RANGE")
def page_behind_the_carveout(trace: Trace, actions: Actions) -> None:
    actions["b"][first(actions, Op.MAP_GPU_MEM)] = trace.carveout_bytes // PAGE_BYTES


@case("RANGE")
def pages_that_wrap_around(trace: Trace, actions: Actions) -> None:
    at = first(actions, Op.MAP_GPU_MEM)
    actions["b"][at], actions["value"][at] = 0xFFFFFFFF, 2


@case("RANGE")
def virtual_page_behind_the_table(trace: Trace, actions: Actions) -> None:
    actions["a"][first(actions, Op.MAP_GPU_MEM)] = trace.va_bytes // PAGE_BYTES


@case("RANGE")
def virtual_page_far_behind_the_table(trace: Trace, actions: Actions) -> None:
    actions["arg"][first(actions, Op.MAP_GPU_MEM)] |= 0xFFF0


@case("RANGE")
def upload_over_the_image(trace: Trace, actions: Actions) -> None:
    actions["a"][first(actions, Op.UPLOAD)] = 0


@case("RANGE")
def upload_behind_the_carveout(trace: Trace, actions: Actions) -> None:
    at = first(actions, Op.UPLOAD)
    actions["a"][at] = trace.carveout_bytes - int(actions["value"][at]) + 1


@case("RANGE")
def upload_from_behind_the_image(trace: Trace, actions: Actions) -> None:
    actions["b"][first(actions, Op.UPLOAD)] = len(trace.image)


@case("RANGE")
def clear_that_wraps_around(trace: Trace, actions: Actions) -> None:
    actions["value"][first(actions, Op.CLEAR)] = 0xFFFFFFFF


@case("RANGE")
def slot_that_is_not_there(trace: Trace, actions: Actions) -> None:
    actions["arg"][first(actions, Op.COPY_TO_GPU)] = len(trace.slots)


@case("RANGE")
def interrupt_line_that_is_not_there(trace: Trace, actions: Actions) -> None:
    actions["arg"][first(actions, Op.WAIT_IRQ)] = 1


@case("ACTION")
def wait_without_a_timeout(trace: Trace, actions: Actions) -> None:
    actions["value"][first(actions, Op.WAIT_IRQ)] = 0


@case("ACTION")
def opcode_that_is_not_there(trace: Trace, actions: Actions) -> None:
    actions["op"][0] = 0xFF


@pytest.fixture(scope="module")
def trace() -> Trace:
    return build(Trace.read(RAW))


@pytest.fixture(scope="module")
def signer() -> FileSigner:
    return FileSigner(generate(Algorithm.ES256))


def forged(data: bytearray, signer: FileSigner) -> bytes:
    """Hash the chunks again and sign, whatever the trace says."""
    header, parts = layout.disassemble(bytes(data))
    at = parts.one(SectionType.CHUNKS).offset
    for index in range(header["chunk_count"]):
        start = header["head_bytes"] + index * header["chunk_bytes"]
        digest = hashlib.sha256(data[start : start + header["chunk_bytes"]]).digest()
        data[at + index * HASH_BYTES : at + (index + 1) * HASH_BYTES] = digest
    tbs = envelope.to_be_signed(signer.alg, signer.kid, bytes(data[: header["head_bytes"]]))
    return envelope.join(envelope.Envelope(signer.alg, signer.kid, lowered(signer.sign(tbs))), bytes(data))


def replay(trace: Trace, signer: FileSigner, edit: Callable[[Trace, Actions], None]) -> ReplayResult:
    """Replay a trace with changed actions."""
    data = bytearray(trace.build(compress=False))
    part = layout.disassemble(bytes(data))[1].one(SectionType.ACTIONS)
    end = part.offset + len(part.stored)
    actions = np.frombuffer(data[part.offset : end], ACTION_DTYPE).copy()
    edit(trace, actions)
    data[part.offset : end] = actions.tobytes()
    return runners.run("vgpu", ReplayRequest(forged(data, signer), signer.public))


def test_the_unchanged_trace_is_replayed(trace: Trace, signer: FileSigner) -> None:
    assert replay(trace, signer, lambda _trace, _actions: None).ok


@pytest.mark.parametrize("name", CASES)
def test_forbidden_actions_are_refused(trace: Trace, signer: FileSigner, name: str) -> None:
    status, edit = CASES[name]
    report = replay(trace, signer, edit).report
    assert (report.name, report.jobs, report.retries) == (status, 0, 0)
    if name not in JUDGED_WHEN_RUN:
        assert report.phase == Phase.LOAD


def test_a_slot_behind_the_page_table_is_refused(
    trace: Trace, signer: FileSigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytearray(trace.build(compress=False))
    at = layout.disassemble(bytes(data))[1].one(SectionType.SLOTS).offset + SLOT_ADDRESS_AT
    data[at : at + 8] = trace.va_bytes.to_bytes(8, "little")
    monkeypatch.setattr(vgpu, "open_trace", lambda _signed: trace)  # the caller believes the good one
    report = runners.run("vgpu", ReplayRequest(forged(data, signer), signer.public, given(trace))).report
    assert report.name in ("SLOTS", "RANGE")
    assert report.jobs == 0


def test_a_slot_in_the_image_is_refused(trace: Trace, signer: FileSigner) -> None:
    actions = trace.actions.copy()
    page = trace.slots[0].address // PAGE_BYTES
    at = int(np.flatnonzero((actions["op"] == Op.MAP_GPU_MEM) & (actions["a"] == page))[0])
    actions["b"][at] = 0
    signed = sign_trace(trace.with_(actions=actions).build(), signer)
    report = runners.run("vgpu", ReplayRequest(signed, signer.public, given(trace))).report
    assert (report.name, report.op, report.jobs) == ("RANGE", Op.COPY_TO_GPU, 0)


def given(trace: Trace) -> dict[str, np.ndarray]:
    """A value for the input slot, which is the trace's first."""
    slot = trace.slots[0]
    assert slot.kind == SlotKind.INPUT
    return {slot.name: np.zeros(slot.shape, np.float32)}


def test_a_job_before_any_table_is_set_finds_no_memory(trace: Trace, signer: FileSigner) -> None:
    """Translation is on, over the replayer's own empty table, before the first action of any trace."""
    start = first(trace.actions, Op.JOB)
    configuration = trace.actions[start - 8 : start + 3]
    rows = [action(Op.REPLAY_START), *configuration[configuration["op"] != Op.COPY_TO_GPU]]
    bare = trace.with_(actions=np.array(rows, ACTION_DTYPE), slots=[], meta={**trace.meta, "retry_limit": 0})
    report = runners.run("vgpu", ReplayRequest(sign_trace(bare.build(), signer), signer.public)).report
    assert report.name == "FAULT"
    assert ACTIONS[Op(report.op)].name == "WaitIrq"
