# SPDX-License-Identifier: BSD-2-Clause
"""Requests with deadlines in firmware, on Unicorn: the mailbox's requests, and what they cost."""

from __future__ import annotations

import json
import mmap
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.model import joining
from host_tools.runners import firmware, libraries, unicorn
from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import GenerateError, Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.status import Report, value_of
from tests.support import replayer_samples as s
from tests.support.firmware_samples import GCC, STRICT
from tests.support.sampling import SomeOf
from tests.vgpu.test_joined import PAIR, expected, inputs, joint, single
from trace_format import packing
from trace_format.operators import used
from trace_format.schema import SlotKind
from trace_format.schema.mailbox import (
    MAILBOX_BUFFERS,
    MAILBOX_DATA_AT,
    MAILBOX_REQUEST,
    MAILBOX_REQUEST_SLOTS,
    MAILBOX_RESPONSE_AT,
)

QUEUE = 8
ANY_TIME = (1 << 64) - 1
LATER = 1 << 62  # microseconds; requests that differ by a little more are due in that order


@dataclass
class Asked:
    """A request: what network, after how many microseconds it is due, and with which input; the answer to it."""

    network: int
    due_us: int
    seed: int
    status: int = 0
    order: int = 0


@pytest.fixture(scope="module")
def scheduling(tmp_path_factory: pytest.TempPathFactory) -> firmware.Firmware:
    """Firmware with a queue."""
    if shutil.which(GCC) is None:
        pytest.skip(f"{GCC} is missing: apt-get install gcc-aarch64-linux-gnu")
    out = tmp_path_factory.mktemp("scheduling") / "out"
    generate(make_options(networks=2, schedule=QUEUE, operators=used(joint(PAIR).trace.actions)), out)
    firmware.compile_firmware(out, STRICT)
    return firmware.load(out)


def make_options(**options: Any) -> Options:
    """Options of the emulated board."""
    return Options("v3d42", platform_of("qemu-virt"), s.KEY, libraries.source(), **options)


class Mailbox:
    """A firmware's mailbox, with a trace and what is asked of it."""

    def __init__(self, fw: firmware.Firmware) -> None:
        self.fw = fw
        self.memory = np.frombuffer(mmap.mmap(-1, 8 << 20), np.uint8)
        self.at = MAILBOX_DATA_AT
        self.buffers: list[dict[str, int]] = []
        self.carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)

    def put(self, data: bytes) -> int:
        """Where data lies."""
        place = self.at
        self.memory[place : place + len(data)] = np.frombuffer(data, np.uint8)
        self.at += -(-len(data) // 64) * 64
        return place

    def buffer(self, slot: int, offset: int, size: int, step: int = 0) -> None:
        """A buffer as it is."""
        self.buffers.append({"slot": slot, "step": step, "offset": offset, "bytes": size})

    def run(self, signed: bytes, repeat: int = 1, **options: Any) -> tuple[int, Report]:
        """Boot the firmware; how many replays it has done, and what it reports. All of its memory is wiped."""
        size, row = packing.size_of("mailbox_request"), packing.size_of("mailbox_buffer")
        assert len(self.buffers) <= MAILBOX_BUFFERS
        place = self.put(signed)
        words = {
            "trace_offset": place,
            "trace_bytes": len(signed),
            "repeat": repeat,
            "buffer_count": len(self.buffers),
        }
        data = packing.pack("mailbox_request", words)
        data += b"".join(packing.pack("mailbox_buffer", buffer) for buffer in self.buffers)
        assert len(data) == size + row * len(self.buffers)
        self.memory[: len(data)] = np.frombuffer(data, np.uint8)
        memory = {self.fw.board.carveout_base: self.carveout}
        with VirtualGpu("v3d42", memory, **options) as device:
            unicorn.Machine(self.fw, device, self.carveout, self.memory).run()
        assert not self.carveout.any()
        end = MAILBOX_RESPONSE_AT + packing.size_of("mailbox_response")
        answer = packing.unpack("mailbox_response", bytes(self.memory[MAILBOX_RESPONSE_AT:end]))
        return answer["replays"], Report(**answer["report"])


def serve(fw: firmware.Firmware, asked: Sequence[Asked], repeat: int = 1, **options: Any) -> tuple[int, Report]:
    """Have firmware serve requests; outputs of those that it served are the single traces'."""
    trace, box = joint(PAIR).trace, Mailbox(fw)
    outputs: list[tuple[Asked, int, dict[str, tuple[int, int]]]] = []
    for one in asked:
        name = PAIR[one.network]
        row = trace.networks[one.network]
        answer = box.put(bytes(packing.size_of("mailbox_answer")))
        box.buffer(MAILBOX_REQUEST, answer, one.due_us, one.network)
        places: dict[str, tuple[int, int]] = {}
        for index in range(row.first_slot, row.first_slot + row.slot_count):
            slot = trace.slots[index]
            own = slot.name.partition(joining.SEPARATOR)[2]
            if slot.kind is SlotKind.INPUT:
                data = inputs(single(name), one.seed)[own].tobytes()
            elif slot.kind is SlotKind.OUTPUT:
                data = bytes(slot.dense_bytes)
            else:
                continue
            place = box.put(data)
            box.buffer(index, place, len(data))
            if slot.kind is SlotKind.OUTPUT:
                places[own] = place, len(data)
        outputs.append((one, answer, places))
    done, report = box.run(s.signed(trace), repeat, **options)
    for one, at, places in outputs:
        found = packing.unpack("mailbox_answer", bytes(box.memory[at : at + packing.size_of("mailbox_answer")]))
        one.status, one.order = found["status"], found["order"]
        if one.status == value_of("OK"):
            got = {name: bytes(box.memory[place : place + size]) for name, (place, size) in places.items()}
            assert got == expected(PAIR[one.network], one.seed)
    return done, report


def mixed(count: int, seed: int) -> list[Asked]:
    """Requests at random, due in random order."""
    random = np.random.default_rng(seed)
    return [
        Asked(int(random.integers(2)), LATER + (int(random.integers(1000)) << 40), int(random.integers(3)))
        for _ in range(count)
    ]


def test_interleaved_requests(scheduling: firmware.Firmware, some_of: SomeOf) -> None:
    """Ten thousand of them, or some: all outputs are those of single traces, and each request ends once."""
    asked = mixed(50, 1)
    rounds = len(some_of(range(200), 1))
    done, report = serve(scheduling, asked, rounds)
    assert report.ok, report.describe(s.GPU)
    assert done == 50 * rounds
    assert {one.status for one in asked} == {value_of("OK")}
    assert len({one.order for one in asked}) == 50
    if rounds == 1:
        assert [one.order for one in asked] != list(range(1, 51)), "the deadlines decide nothing"


def test_a_fault_of_one_leaves_the_others(scheduling: firmware.Firmware) -> None:
    asked = mixed(6, 2)
    done, report = serve(scheduling, asked, fault_job=9)
    assert report.ok
    assert done == 6


def test_refusals(scheduling: firmware.Firmware) -> None:
    """What cannot be in time is refused, and the others are served."""
    asked = [Asked(0, 0, 0), Asked(0, ANY_TIME, 1), Asked(1, 1, 0), Asked(1, ANY_TIME - 1, 2)]
    done, report = serve(scheduling, asked)
    assert report.ok
    assert done == 2
    assert [one.status for one in asked] == [value_of(n) for n in ("DEADLINE", "OK", "DEADLINE", "OK")]
    assert [one.order > 0 for one in asked] == [False, True, False, True]


def malformed(box: Mailbox, case: str) -> None:
    """A mailbox whose requests break a rule."""
    answer = box.put(bytes(8))
    box.buffer(MAILBOX_REQUEST, answer, ANY_TIME)
    slot = (0, box.put(bytes(3136)), 3136)
    match case:
        case "an answer outside":
            box.buffer(MAILBOX_REQUEST, 1 << 40, ANY_TIME)
        case "an answer on the response":
            box.buffer(MAILBOX_REQUEST, MAILBOX_RESPONSE_AT, ANY_TIME)
        case "data outside":
            box.buffer(0, (1 << 64) - 16, 3136)
        case "a series":
            box.buffer(*slot, 3136)
        case "too many slots":
            for _ in range(MAILBOX_REQUEST_SLOTS + 1):
                box.buffer(*slot)


CASES = ("an answer outside", "an answer on the response", "data outside", "a series", "too many slots")


@pytest.mark.parametrize("case", CASES)
def test_malformed_requests(scheduling: firmware.Firmware, case: str) -> None:
    box = Mailbox(scheduling)
    malformed(box, case)
    _, report = box.run(s.signed(joint(PAIR).trace))
    assert report.name == "REQUEST"


@pytest.mark.parametrize(
    ("network", "slot", "size"), [(2, 0, 3136), (0, 2, 3136), (0, 0, 3135), (1 << 31, 0, 3136), (0, 99, 4)]
)
def test_what_no_network_has(scheduling: firmware.Firmware, network: int, slot: int, size: int) -> None:
    box = Mailbox(scheduling)
    answer = box.put(bytes(8))
    box.buffer(MAILBOX_REQUEST, answer, ANY_TIME, network)
    box.buffer(slot, box.put(bytes(4096)), size)
    done, _ = box.run(s.signed(joint(PAIR).trace))
    assert done == 0
    found = packing.unpack("mailbox_answer", bytes(box.memory[answer : answer + 8]))
    assert (found["status"], found["order"]) == (value_of("ARGUMENT"), 0)


def test_who_does_not_want_it_pays_nothing(tmp_path: Path) -> None:
    """Nothing of it is in the sources of others, and the queue needs networks."""
    generate(make_options(networks=2, steps=True), tmp_path / "steps")
    text = (tmp_path / "steps" / "replayer.c").read_text(encoding="utf-8")
    assert "gr_submit" not in text
    assert "takes_us" not in text
    assert not (tmp_path / "steps" / "requests.c").exists()
    for options, why in (
        ({"schedule": 8}, "say how many"),
        ({"networks": 2, "schedule": 65}, "expected 1 to 64, found 65"),
    ):
        with pytest.raises(GenerateError, match=why):
            make_options(**options)


def test_an_audit_finds_nothing(scheduling: firmware.Firmware, tmp_path: Path) -> None:
    """Its queue has loops whose counters begin with each other's values."""
    (tmp_path / "pub.pem").write_bytes(s.KEY.pem())
    line = ["audit-firmware", str(scheduling.folder), "--key", str(tmp_path / "pub.pem"), "--json"]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    (only,) = json.loads(done.stdout)["firmware"]
    assert only["findings"] == []
