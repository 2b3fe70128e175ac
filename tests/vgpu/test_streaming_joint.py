# SPDX-License-Identifier: BSD-2-Clause
"""Joint traces of streamed networks: in turns, interleaved and queued, each gives what its own trace gives."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from host_tools.audit.lint import lint
from host_tools.extras.sharing import joining
from host_tools.extras.sharing.joining import JoinError
from host_tools.model import parts
from host_tools.model.interpreter import interpreter
from host_tools.passes.pipeline import build
from signing import encryption
from tee_replayer.generator.hostlib import NO_DEADLINE
from tee_replayer.generator.status import ReplayError
from tests.support import encryption_samples as e
from tests.support import replayer_samples as s
from tests.support.small_jobs import weighted
from tests.support.streamed import made, smallest
from tests.vgpu.test_joined import Inputs, Running, running
from trace_format import layout
from trace_format.actions import Op
from trace_format.schema import PAGE_BYTES, SectionType
from trace_format.trace import Trace

# Network -> how many weights it has, and pages beyond the smallest budget; None: it is not streamed.
KINDS = {"again": (12, 0), "some": (9, 3), "stays": (10, 40), "plain": (5, None), "more": (6, 1)}
PAIRS = [("again", "some"), ("stays", "stays-2"), ("plain", "again"), ("again", "plain"), ("some", "again-2")]


@functools.cache
def single(name: str) -> Trace:
    """A network's own trace; NAME-2 is another of the same."""
    weights, pages = KINDS[name.removesuffix("-2")]
    raw = weighted(weights)
    trace = build(raw) if pages is None else made(raw, smallest(raw) + pages * PAGE_BYTES)
    return trace.with_(meta={**trace.meta, "name": name})


@functools.cache
def joint(names: Sequence[str], exclusive: bool = False) -> Trace:
    """Several of them as one."""
    rows = [joining.Joining(name, single(name), predicted_us=10) for name in names]
    return joining.joint(rows, "joint", exclusive=exclusive).trace


def inputs(seed: int) -> Inputs:
    return {"in": np.random.default_rng(seed).integers(-(1 << 20), 1 << 20, 16, np.int32)}


def expected(name: str, seed: int) -> dict[str, bytes]:
    """What the network computes."""
    weights, _ = KINDS[name.removesuffix("-2")]
    data = np.frombuffer(bytes(weighted(weights).image), np.int32, offset=2 * PAGE_BYTES).reshape(weights, -1)
    return {"out": (inputs(seed)["in"] + data[:, :16].sum(axis=0, dtype=np.int32)).tobytes()}


def answer(device: Running, names: Sequence[str], network: int, seed: int) -> None:
    """A request, whose outputs are those of the network."""
    assert device.request(network, inputs(seed)) == expected(names[network], seed)


@pytest.mark.parametrize("names", PAIRS, ids=str)
@pytest.mark.parametrize("exclusive", [False, True])
def test_networks_in_turns(names: Sequence[str], exclusive: bool) -> None:
    with running(joint(names, exclusive)) as device:
        for number, network in enumerate((0, 1, 1, 0, 0, 1, 0)):
            before = device.working(1 - network)
            answer(device, names, network, number)
            assert exclusive or device.working(1 - network) == before


@pytest.mark.parametrize("names", [*PAIRS, ("again", "some", "plain", "more")], ids=str)
def test_steps_of_several_networks_in_any_order(names: Sequence[str]) -> None:
    random = np.random.default_rng(63)
    with running(joint(names), steps=True, latency_ns=5_000_000) as device:
        done = [0] * len(names)
        for network in range(len(names)):
            device.give(network, inputs(0))
        while min(done) < 3:
            network = int(random.integers(len(names)))
            device.replayer.select(network)
            if not device.replayer.step():
                assert device.replayer.report.retries == 0
                assert device.outputs(network) == expected(names[network], done[network])
                done[network] += 1
                device.give(network, inputs(done[network]))


@pytest.mark.parametrize("names", PAIRS[:3], ids=str)
def test_requests_of_a_queue(names: Sequence[str]) -> None:
    """The later one is due first: it runs between two jobs of the other."""
    with running(joint(names), schedule=4) as device:
        for seed in range(3):
            given, taken = [inputs(seed + i)["in"] for i in range(2)], [np.zeros(16, np.int32) for _ in range(2)]
            slots = [{2 * i: given[i], 2 * i + 1: taken[i]} for i in range(2)]
            first = device.replayer.submit(0, NO_DEADLINE, slots[0])
            for _ in range(3):
                assert not device.replayer.schedule_step()
            second = device.replayer.submit(1, device.replayer.now_ns // 1000 + 60_000_000, slots[1])
            over = []
            while device.replayer.requests:
                if number := device.replayer.schedule_step():
                    over.append(number)
                    assert device.replayer.report.ok
            assert over == [second, first]
            for i in range(2):
                assert taken[i].tobytes() == expected(names[i], seed + i)["out"]


def _without_pieces(device: Running) -> None:
    """Nothing of the file can be read again."""
    trace = device.trace.build()
    at = layout.disassemble(trace)[1].one(SectionType.STREAM).offset
    device.file[len(device.file) - len(trace) + at :] = bytes(len(trace) - at)


def test_a_piece_that_two_networks_share_is_read_once() -> None:
    names = ("stays", "stays-2")
    trace = joint(names)
    assert len(trace.streamed) == len(single("stays").streamed)
    assert all(row.image == trace.networks[0].image for row in trace.networks)
    with running(trace) as device:
        answer(device, names, 0, 0)
        _without_pieces(device)
        answer(device, names, 1, 1)
        answer(device, names, 0, 2)


def test_a_network_reads_its_own_pieces_alone() -> None:
    """Those of the other cannot be read any more, and it does not mind; the other does."""
    names = ("stays", "again")
    with running(joint(names)) as device:
        answer(device, names, 0, 0)
        _without_pieces(device)
        answer(device, names, 0, 1)
        with pytest.raises(ReplayError) as failed:
            answer(device, names, 1, 0)
        assert failed.value.report.name == "CHUNK"
        answer(device, names, 0, 2)


def test_a_job_that_hangs_leaves_the_other_network_alone() -> None:
    names = ("again", "some")
    first = joint(names)
    jobs = int((first.actions[: first.networks[0].end_action]["op"] == Op.JOB).sum())
    with running(first, hang_job=jobs + 4) as device:
        answer(device, names, 0, 0)
        answer(device, names, 1, 1)
        assert device.replayer.report.retries == 1
        answer(device, names, 0, 2)
        assert device.replayer.report.retries == 0


def test_a_joint_streamed_trace_that_is_encrypted() -> None:
    names = ("again", "stays")
    trace = encryption.encrypt(joint(names).build(), [e.public(e.DEVICE)])
    with running(joint(names)) as device:
        device.replayer.decrypts_with(e.SECRET)
        device.replayer.load(s.signed(trace), s.KEY)
        for index, buffer in enumerate(device.buffers):
            device.replayer.bind(index, buffer)
        for number, network in enumerate((0, 1, 1, 0)):
            answer(device, names, network, number)


@pytest.mark.parametrize("names", PAIRS, ids=str)
def test_a_file_reads_back_and_its_parts_are_traces(names: Sequence[str]) -> None:
    trace = joint(names)
    assert Trace.parse(trace.build(compress=False)).build() == trace.build()
    assert not lint(trace)
    for name, network in zip(names, trace.networks, strict=True):
        with interpreter(parts.part(trace, network)) as run:
            for seed in range(2):
                assert run.run(inputs(seed))["out"].tobytes() == expected(name, seed)["out"]
        assert not joining.differences(trace, network, single(name))


def test_what_is_not_the_owners_is_found() -> None:
    names = ("again", "stays")
    trace = joint(names)
    again, stays = trace.networks
    late = [replace(piece, first_job=trace.jobs - 1) if piece.resident else piece for piece in trace.streamed]
    other = [replace(piece, data=bytes(len(piece.data))) for piece in trace.streamed]
    for pieces, network, text in (
        (late, stays, "is read too late"),
        (other, again, "its pieces are others"),
        (other, stays, "is missing"),
    ):
        found = joining.differences(trace.with_(streamed=pieces), network, single(network.name))
        assert any(text in line for line in found), found


def test_more_pieces_than_a_trace_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "MAX_PIECES", 5)
    with pytest.raises(JoinError, match="a trace has at most 5"):
        joining.joint([joining.Joining(name, single(name)) for name in ("again", "some")], "joint")
