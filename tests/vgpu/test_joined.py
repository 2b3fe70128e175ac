# SPDX-License-Identifier: BSD-2-Clause
"""Joint traces on the virtual GPU: each network's outputs are those of its own trace, whatever ran in between."""

from __future__ import annotations

import functools
import json
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from host_tools.audit.dynamic import lint_dynamic
from host_tools.audit.lint import lint
from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.extras.sharing import joining
from host_tools.model import parts
from host_tools.passes.pipeline import build
from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator import hostlib
from tee_replayer.generator.status import ReplayError
from tests.support import replayer_samples as s
from tests.support.json_schemas import check
from tests.support.places import CHECKOUT
from tests.support.sampling import SomeOf
from trace_format import profile
from trace_format.actions import Columns, Op
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

Inputs = dict[str, NDArray[Any]]
RECORDINGS = {
    "lenet": RAW,
    "detector": CHECKOUT / "tests/support/detector.raw.gtr",
    "lenet-mali": CHECKOUT / "tests/support/lenet.mali_g71.raw.gtr",
    "lenet-7.1": CHECKOUT / "tests/support/lenet.v3d71.raw.gtr",
}
PAIR, FOUR = ("lenet", "detector"), ("lenet", "detector", "lenet-2", "detector-2")


@functools.cache
def single(name: str) -> Trace:
    """The trace of a recording; NAME-2 is another of the same."""
    trace = build(Trace.read(RECORDINGS[name.removesuffix("-2")]), trust_note=True)
    return trace.with_(meta={**trace.meta, "name": name})


@functools.cache
def joint(names: Sequence[str], exclusive: bool = False) -> joining.Joint:
    """Several of them as one."""
    return joining.joint([joining.Joining(name, single(name)) for name in names], "joint", exclusive=exclusive)


def inputs(trace: Trace, seed: int) -> Inputs:
    """Random values of all inputs."""
    random = np.random.default_rng(seed)
    given = (slot for slot in trace.slots if slot.kind is SlotKind.INPUT)
    return {slot.name: random.random(slot.shape).astype(slot.numpy_dtype) for slot in given}


class Running:
    """A device with a trace; requests name a network and its inputs."""

    def __init__(
        self,
        trace: Trace,
        gpu: VirtualGpu,
        memory: mmap.mmap,
        steps: bool,
        schedule: int = 0,
        networks: int = 8,
    ) -> None:
        self.trace, self.memory, self.gpu = trace, memory, gpu
        is_streamed = bool(trace.streamed)
        gpu_profile = profile.load(trace.gpu)
        library = s.library(gpu_profile, networks=networks, steps=steps, schedule=schedule, streaming=is_streamed)
        self.replayer = hostlib.HostReplayer(
            library, profile.load(trace.gpu), gpu.c_interface, memory, s.CARVEOUT_PHYS
        )
        self.file = bytearray(s.signed(trace))
        self.replayer.load(hostlib._ffi().from_buffer("uint8_t[]", self.file), s.KEY)
        self.buffers = [np.zeros(slot.shape, slot.numpy_dtype) for slot in trace.slots]
        for index, buffer in enumerate(self.buffers):
            if trace.slots[index].kind in (SlotKind.INPUT, SlotKind.OUTPUT):
                self.replayer.bind(index, buffer)

    def give(self, network: int, values: Inputs) -> None:
        """Values of a network's inputs, by their names in the single trace."""
        for name, value in values.items():
            self._own(network)[name][1][...] = value

    def outputs(self, network: int) -> dict[str, bytes]:
        """What its latest replay has left, by the names in the single trace."""
        own = self._own(network).items()
        return {name: buffer.tobytes() for name, (slot, buffer) in own if slot.kind is SlotKind.OUTPUT}

    def request(self, network: int, values: Inputs) -> dict[str, bytes]:
        """Replay; the outputs."""
        if self.trace.networks:
            self.replayer.select(network)
        self.give(network, values)
        self.replayer.run()
        return self.outputs(network)

    def _own(self, network: int) -> dict[str, tuple[Slot, NDArray[Any]]]:
        begin = ""
        if self.trace.networks:
            begin = self.trace.networks[network].name + parts.SEPARATOR
        return {
            slot.name.removeprefix(begin): (slot, buffer)
            for slot, buffer in zip(self.trace.slots, self.buffers, strict=True)
            if slot.name.startswith(begin)
        }

    def working(self, network: int) -> bytes:
        """A network's working memory."""
        row = self.trace.networks[network]
        return bytes(self.memory[row.first_page * PAGE_BYTES : row.end_page * PAGE_BYTES])


@contextmanager
def running(trace: Trace, *, steps: bool = False, schedule: int = 0, **options: Any) -> Iterator[Running]:
    memory = mmap.mmap(-1, trace.carveout_bytes + (8 << 20))
    with VirtualGpu(trace.gpu, {s.CARVEOUT_PHYS: memory}, **options) as gpu:
        yield Running(trace, gpu, memory, steps or schedule > 0, schedule)


@functools.cache
def expected(name: str, seed: int) -> dict[str, bytes]:
    """What a single trace makes of inputs."""
    trace = single(name)
    with running(trace) as device:
        return device.request(0, inputs(trace, seed))


def answer(device: Running, names: Sequence[str], network: int, seed: int) -> None:
    """A request, whose outputs are those of the single trace."""
    assert device.request(network, inputs(single(names[network]), seed)) == expected(names[network], seed)


@pytest.mark.parametrize("names", [PAIR, FOUR], ids=len)
def test_interleaved_requests_give_what_single_traces_give(names: Sequence[str]) -> None:
    order = np.random.default_rng(7).integers(len(names), size=6 * len(names)).tolist()
    with running(joint(names).trace) as device:
        for number, network in enumerate(order):
            others = [device.working(other) for other in range(len(names)) if other != network]
            answer(device, names, network, number % 3)
            after = [device.working(other) for other in range(len(names)) if other != network]
            assert others == after, "another network's memory was written"


@pytest.mark.parametrize("names", [("lenet-mali", "lenet-mali-2"), ("lenet-7.1", "lenet-7.1-2")], ids=str)
def test_other_gpus(names: Sequence[str]) -> None:
    with running(joint(names).trace) as device:
        for number, network in enumerate((0, 1, 1, 0, 1, 0, 0)):
            answer(device, names, network, number % 3)


def test_a_network_reads_nothing_of_another() -> None:
    """With all that the other has in memory changed, its outputs stay what they were."""
    with running(joint(PAIR).trace) as device:
        answer(device, PAIR, 0, 1)
        answer(device, PAIR, 1, 1)
        row = device.trace.networks[1]
        begin, end = row.first_page * PAGE_BYTES, row.end_page * PAGE_BYTES
        device.memory[begin:end] = b"\xa5" * (end - begin)
        answer(device, PAIR, 0, 2)
        assert device.working(1) == b"\xa5" * (end - begin)
        device.replayer.select(1)
        device.replayer.restart()
        answer(device, PAIR, 1, 2)


def test_each_output_depends_on_its_networks_inputs_alone() -> None:
    found, _ = lint_dynamic(joint(("lenet", "lenet-2")).trace)
    assert not found
    assert not lint(joint(FOUR).trace)


def test_a_fault_of_one_leaves_the_others_outputs() -> None:
    first = joint(PAIR).trace
    jobs = Columns(first.actions[: first.networks[0].end_action]).is_op(Op.JOB).sum()
    with running(first, fault_job=int(jobs) + 2) as device:
        answer(device, PAIR, 0, 0)
        answer(device, PAIR, 1, 0)  # its second job faults once: a reset, and again from the prologue
        assert device.replayer.report.retries == 1
        answer(device, PAIR, 0, 3)
        assert device.replayer.report.retries == 0


def test_exclusive_networks_begin_anew() -> None:
    both = joint(PAIR, exclusive=True).trace
    assert both.carveout_bytes < joint(PAIR).trace.carveout_bytes
    with running(both) as device:
        for number, network in enumerate((0, 1, 0, 0, 1)):
            answer(device, PAIR, network, number)


def test_there_is_no_such_network() -> None:
    with running(joint(PAIR).trace) as device:
        with pytest.raises(IndexError):
            device.replayer.select(2)
        answer(device, PAIR, 0, 0)
        device.replayer.unload()
        assert not any(bytes(device.memory))


def test_only_the_networks_own_inputs_are_asked_for() -> None:
    trace = joining.joint([joining.Joining(n, s.trace(slots=s.slots(bound=False))) for n in "ab"], "x").trace
    device = s.Device(carveout_bytes=1 << 20, networks=2)
    device.replayer.load(s.signed(trace), s.KEY)
    data, out = np.ones((2, 3), "<f4"), np.zeros((2, 3), "<f4")
    device.replayer.bind(0, data)
    device.replayer.bind(1, out)
    device.replayer.run()
    assert np.array_equal(data, out)
    device.replayer.select(1)
    with pytest.raises(ReplayError) as error:
        device.replayer.run()
    assert (error.value.report.name, error.value.report.offset) == ("UNBOUND", 2)


def test_equal_pages_are_there_once() -> None:
    pair = joint(("lenet", "lenet-2"))
    assert pair.shared_pages == pair.image_pages // 2
    for names in (PAIR, FOUR):
        made = joint(names)
        size = sum(len(single(name).build()) for name in names)
        assert len(made.trace.image) == (made.image_pages - made.shared_pages) * PAGE_BYTES
        assert len(made.trace.build()) <= size


def gramophone(*arguments: str | Path, status: int = 0) -> Any:
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == status, result.output
    return result


def test_commands(tmp_path: Path) -> None:
    files = []
    for name in PAIR:
        files.append(tmp_path / f"{name}.gtr")
        files[-1].write_bytes(single(name).build())
    out = tmp_path / "joint.gtr"
    words: tuple[str | Path, ...] = (
        "sharing",
        "join",
        *files,
        "-o",
        out,
        "--period",
        "lenet=20000",
        "--priority",
        "lenet=9",
        "--json",
    )
    found = json.loads(gramophone(*words).stdout)
    check("sharing join", found)
    first, second = found["networks"]
    assert (first["name"], first["period_us"], first["priority"]) == ("lenet", 20000, 9)
    assert 0 < second["longest_job_us"] < second["predicted_us"]
    assert gramophone("lint", out, "--strict").exit_code == 0
    assert "joint trace" in gramophone("inspect", out).stdout
    text = tmp_path / "joint.txt"
    gramophone("dump", out, "--format", "text", "-o", text)
    gramophone("assemble", text, "-o", tmp_path / "again.gtr")
    assert (tmp_path / "again.gtr").read_bytes() == out.read_bytes()
    for command in (
        ("speed", "time", out),
        ("build", out, "-o", tmp_path / "x"),
        ("report", out),
        ("diff", out, files[0]),
    ):
        assert "is a joint trace" in gramophone(*command, status=2).stderr
    check(
        "sharing join",
        json.loads(
            gramophone("sharing", "join", out, "--take", "lenet", "-o", tmp_path / "one.gtr", "--json").stdout
        ),
    )
    assert Trace.read(tmp_path / "one.gtr").jobs == single("lenet").jobs
    assert (
        "no network 'lent' (did you mean 'lenet'?)"
        in gramophone("sharing", "join", out, "--take", "lent", "-o", tmp_path / "x", status=2).stderr
    )
    assert "jobs" in gramophone("report", out, "--network", "lenet", "--no-run").stdout

    key, value, result = tmp_path / "pub.pem", tmp_path / "x.npy", tmp_path / "y.npy"
    key.write_bytes(s.KEY.pem())
    signed = tmp_path / "joint.sgtr"
    signed.write_bytes(s.signed(out.read_bytes()))
    (array,) = inputs(single("lenet"), 4).values()
    np.save(value, array)
    replay: tuple[str | Path, ...] = (
        "replay",
        signed,
        "--key",
        key,
        "--input",
        f"data={value}",
        "-o",
        f"prob={result}",
    )
    gramophone(*replay, "--network", "lenet")
    assert np.load(result).tobytes() == expected("lenet", 4)["prob"]
    assert "expected --network with one of lenet, detector" in gramophone(*replay, status=2).stderr
    assert "only vgpu" in gramophone(*replay, "--network", "lenet", "--on", "qemu", status=2).stderr


REFUSED = {
    "expected 2 to 8 traces, found 1": ("lenet",),
    "2 networks are called 'lenet'": ("lenet", "lenet"),
    "lenet-mali is for another GPU": ("lenet", "lenet-mali"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_joined(text: str) -> None:
    with pytest.raises(joining.JoinError, match=text):
        joining.joint([joining.Joining(name, single(name)) for name in REFUSED[text]], "x")


def test_raw_and_joint_traces_and_long_names_cannot_be_joined() -> None:
    lenet = single("lenet")
    for name, trace, text in (
        ("raw", Trace.read(RAW), "raw is a raw recording"),
        ("joint", joint(PAIR).trace, "joint is a joint trace"),
        ("n" * 30, lenet, "would have a name of 35 bytes"),
        ("n" * 33, lenet, "has 1 to 32 bytes"),
        ("", lenet, "has 1 to 32 bytes"),
    ):
        with pytest.raises(joining.JoinError, match=text):
            joining.joint([joining.Joining("lenet", lenet), joining.Joining(name, trace)], "x")


def test_ten_thousand_requests_in_any_order(some_of: SomeOf) -> None:
    """Four networks that copy their inputs through GPU memory; the GPU is only registers."""
    trace = s.joint(4)
    device = s.Device(carveout_bytes=1 << 20, networks=4)
    device.replayer.load(s.signed(trace), s.KEY)
    data, out = np.zeros((4, 2, 3), "<f4"), np.zeros((4, 2, 3), "<f4")
    for network in range(4):
        device.replayer.bind(2 * network, data[network])
        device.replayer.bind(2 * network + 1, out[network])
    order = np.random.default_rng(1).integers(4, size=10_000).tolist()
    for number, network in enumerate(order[: len(some_of(order, 1000))]):
        before = out.copy()
        data[network] = number
        device.replayer.select(network)
        device.replayer.run()
        before[network] = number
        assert np.array_equal(out, before)
    assert device.gpu.resets == 1
    device.replayer.unload()
    assert device.is_wiped
