# SPDX-License-Identifier: BSD-2-Clause
"""The demo network with a good signature, and something in it that no trace may do: the core refuses it.

The host build of the core stands in for the device. All rules, with a small trace: tests/support/hostile.py.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from host_tools import runners
from host_tools.demo import RAW
from host_tools.passes.pipeline import KEEP_INPUTS, build
from signing import envelope
from signing.curves import lowered
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from trace_format import layout
from trace_format.actions import ACTION_DTYPE, ACTIONS, Actions, Op, action
from trace_format.schema import HASH_BYTES, PAGE_BYTES, SectionType, SlotKind
from trace_format.trace import Trace

SLOT_ADDRESS_AT = 40  # docs/FORMAT.md, slot


def first(actions: Actions, op: Op) -> int:
    """Index of the first action of a kind."""
    return int(np.flatnonzero(actions["op"] == op)[0])


@pytest.fixture(scope="module")
def trace() -> Trace:
    return build(Trace.read(RAW), skip=KEEP_INPUTS)


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


def test_a_trace_that_is_forged_well_is_replayed(trace: Trace, signer: FileSigner) -> None:
    data = bytearray(trace.build(compress=False))
    assert runners.run("vgpu", Delivery(forged(data, signer)), signer.public).ok


def test_a_slot_behind_the_page_table_is_refused(
    trace: Trace, signer: FileSigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytearray(trace.build(compress=False))
    at = layout.disassemble(bytes(data))[1].one(SectionType.SLOTS).offset + SLOT_ADDRESS_AT
    data[at : at + 8] = trace.va_bytes.to_bytes(8, "little")
    monkeypatch.setattr(Delivery, "trace", property(lambda _: trace))  # the caller believes the good one
    report = runners.run("vgpu", Delivery(forged(data, signer)), signer.public, given(trace)).report
    assert report.name in ("SLOTS", "RANGE")
    assert report.jobs == 0


def test_a_slot_in_the_image_is_refused(trace: Trace, signer: FileSigner) -> None:
    actions = trace.actions.copy()
    page = trace.slots[0].address // PAGE_BYTES
    at = int(np.flatnonzero((actions["op"] == Op.MAP_GPU_MEM) & (actions["a"] == page))[0])
    actions["b"][at] = 0
    signed = sign_trace(trace.with_(actions=actions).build(), signer)
    report = runners.run("vgpu", Delivery(signed), signer.public, given(trace)).report
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
    report = runners.run("vgpu", Delivery(sign_trace(bare.build(), signer)), signer.public).report
    assert report.name == "FAULT"
    assert ACTIONS[Op(report.op)].name == "WaitIrq"
