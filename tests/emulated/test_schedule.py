# SPDX-License-Identifier: BSD-2-Clause
"""Requests with deadlines in firmware, on Unicorn: the mailbox's requests, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from host_tools import runners
from host_tools.cli import main
from host_tools.model import parts
from host_tools.runners import firmware
from signing.delivery import Delivery
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import GenerateError
from tee_replayer.generator.status import value_of
from tests.support import replayer_samples as s
from tests.support.mailbox_requests import (
    ANY_TIME,
    Asked,
    Mailbox,
    make_options,
    mixed,
    scheduling_firmware,
    serve,
)
from tests.support.sampling import SomeOf
from tests.vgpu.test_joined import PAIR, expected, inputs, joint, single
from trace_format import packing
from trace_format.schema.mailbox import (
    MAILBOX_REQUEST,
    MAILBOX_RESPONSE_AT,
)


@pytest.fixture(scope="module")
def scheduling(tmp_path_factory: pytest.TempPathFactory) -> firmware.Firmware:
    """Firmware with a queue."""
    return scheduling_firmware(tmp_path_factory.mktemp("scheduling") / "out")


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
        case "a series of requests":
            box.buffer(MAILBOX_REQUEST, answer, ANY_TIME, 8)


CASES = ("an answer outside", "an answer on the response", "data outside", "a series", "a series of requests")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES)
def test_malformed_requests(scheduling: firmware.Firmware, case: str) -> None:
    box = Mailbox(scheduling)
    malformed(box, case)
    _, report = box.run(s.signed(joint(PAIR).trace))
    assert report.name == "REQUEST"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("network", "slot", "size"), [(2, 0, 3136), (0, 2, 3136), (0, 0, 3135), (251, 0, 3136), (0, 99, 4)]
)
def test_what_no_network_has(scheduling: firmware.Firmware, network: int, slot: int, size: int) -> None:
    box = Mailbox(scheduling)
    answer = box.put(bytes(8))
    box.buffer(MAILBOX_REQUEST + network, answer, ANY_TIME)
    box.buffer(slot, box.put(bytes(4096)), size)
    done, report = box.run(s.signed(joint(PAIR).trace))
    assert (done, report.name) == (0, "ARGUMENT")
    found = packing.unpack("mailbox_answer", bytes(box.memory[answer : answer + 8]))
    assert (found["status"], found["order"]) == (value_of("ARGUMENT"), 0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("slot", [0, 1, MAILBOX_REQUEST - 1, MAILBOX_REQUEST + 2, 0xFFFFFFFF])
def test_the_first_buffer_begins_a_request(scheduling: firmware.Firmware, slot: int) -> None:
    """Whatever its slot: of a network that there is not, here. All of its answer is where it says."""
    box = Mailbox(scheduling)
    at = box.put(bytes(8))
    box.buffer(slot, at, 3136)
    done, report = box.run(s.signed(joint(PAIR).trace))
    assert (done, report.name) == (0, "ARGUMENT")
    assert packing.unpack("mailbox_answer", bytes(box.memory[at : at + 8]))["status"] == value_of("ARGUMENT")
    box = Mailbox(scheduling)
    box.buffer(slot, scheduling.board.mailbox_bytes - 7, 0)
    done, report = box.run(s.signed(joint(PAIR).trace))
    assert (done, report.name) == (0, "REQUEST")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("names", "repeat"), [(PAIR, 3), (PAIR, 1), (PAIR[:1], 2)])
def test_the_command_asks_for_each_network(
    scheduling: firmware.Firmware, names: Sequence[str], repeat: int
) -> None:
    """`gramophone replay --firmware`: a request without a deadline for each network of a joint trace."""
    is_joint = len(names) > 1
    trace = joint(names).trace if is_joint else single(names[0])
    prefix = {name: f"{name}{parts.SEPARATOR}" if is_joint else "" for name in names}
    given = {prefix[name] + slot: data for name in names for slot, data in inputs(single(name), 1).items()}
    delivery = Delivery(s.signed(trace))
    found = runners.run("unicorn", delivery, s.KEY, given, repeat=repeat, firmware=scheduling.folder)
    assert found.report.ok, found.report.describe(s.GPU)
    for name in names:
        for slot, wanted in expected(name, 1).items():
            assert found.outputs[prefix[name] + slot].tobytes() == wanted


def test_who_does_not_want_it_pays_nothing(tmp_path: Path) -> None:
    """Nothing of it is in the sources of others, and the queue needs networks."""
    generate(make_options(networks=2, steps=True), tmp_path / "steps")
    text = (tmp_path / "steps" / "replayer.c").read_text(encoding="utf-8")
    assert "gr_submit" not in text
    assert "takes_us" not in text
    assert not (tmp_path / "steps" / "requests.c").exists()
    for options, why in (
        ({"schedule": 8}, "also set the feature networks"),
        ({"networks": 2, "schedule": 65}, "expected 1 to 64, found 65"),
    ):
        with pytest.raises(GenerateError, match=why):
            make_options(**options)


def code_bytes(path: Path) -> int:
    """Code and constants of an object, or of a program."""
    with path.open("rb") as file:
        sections = [
            section for section in ELFFile(file).iter_sections() if section["sh_flags"] & SH_FLAGS.SHF_ALLOC
        ]
        return sum(int(section["sh_size"]) for section in sections if section["sh_type"] == "SHT_PROGBITS")


@pytest.mark.exhaustive  # four builds; that others pay nothing is shown above
@pytest.mark.parametrize("gpu", ["v3d42", "mali_g71"])
def test_what_it_costs(gpu: str, tmp_path: Path) -> None:
    """At most 1.5 KB beside steps, with what reads requests from the emulated machine's mailbox."""
    sizes = []
    for name, more in (("steps", {"steps": True}), ("queue", {"schedule": 8})):
        out = generate(replace(make_options(networks=8, **more), gpu=gpu), tmp_path / name)
        firmware.compile_firmware(out)
        sizes.append(code_bytes(out / firmware.ELF))
    steps, queue = sizes
    assert 0 < queue - steps <= 1536


def test_an_audit_finds_nothing(scheduling: firmware.Firmware, tmp_path: Path) -> None:
    """Its queue has loops whose counters begin with each other's values."""
    (tmp_path / "pub.pem").write_bytes(s.KEY.pem())
    line = ["audit-firmware", str(scheduling.folder), "--key", str(tmp_path / "pub.pem"), "--json"]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    (only,) = json.loads(done.stdout)["firmware"]
    assert {row["rule"] for row in only["findings"]} <= {"GF610"}, "its operators make it no profile"
