# SPDX-License-Identifier: BSD-2-Clause
"""`bringup`: twelve stages in an emulation; a plant is named at its stage, and nothing without one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from host_tools.extras.bringup import console, judge, kit
from host_tools.extras.bringup.judge import IDENTITY, LAST_BITS, MISSING, POLICY, TIME, VALUE, Finding
from host_tools.extras.bringup.stages import MARK_BYTES, STEP
from host_tools.runners import firmware as firmwares
from signing.key_files import private_pem
from signing.keys import Algorithm, PublicKey, generate
from tee_replayer.generator import boards
from tests.extras.bringup.lenet import given, run
from tests.support import profile_firmware
from tests.support.bringup_kit import bringup_kit
from tests.support.planted_gpu import GPU, Kind, Plant, planted
from trace_format import profile

# Jobs are counted over all stages: one of irq, fault and copy each, then those of the network.
COPY, LENET, THOUSAND = 2, 3, 17


@pytest.fixture(scope="module")
def made(lenet: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kit."""
    folder = tmp_path_factory.mktemp("kit")
    return bringup_kit(folder, boards.QEMU_VIRT, lenet / "net.gtr", lenet / "x.npy", 2)


def emulated(folder: Path, plant: Plant, requests: int = 10) -> str:
    """What a kit says with a difference, with its first requests only: each timeout takes seconds here."""
    fw = firmwares.load(folder / kit.FIRMWARE)
    request = (folder / kit.REQUEST).read_bytes()
    kept = request[: requests * STEP].ljust(len(request) - MARK_BYTES, b"\0") + request[-MARK_BYTES:]
    with planted(plant):
        return kit.emulate(fw, kept, "v3d42")


def findings(folder: Path, text: str) -> list[Finding]:
    wanted = console.read((folder / kit.EXPECTED).read_text(encoding="utf-8"))
    return judge.judged(console.read(text), wanted, profile.load("v3d42"))


def at(name: str) -> int:
    return GPU.register(name).offset


def test_all_stages_are_said_and_nothing_is_named(made: Path, tmp_path: Path) -> None:
    text = (made / kit.EXPECTED).read_text(encoding="utf-8")
    said = console.read(text)
    assert list(said.stages) == list(console.STAGES)
    assert all(one.ok for one in said.stages.values())
    assert said.ended
    assert len(said.before) == 16
    log = tmp_path / "log"
    log.write_bytes(
        b"\xff\x00U-Boot\r\n" + emulated(made, Plant()).replace("\n", "\r\n").encode() + b"[0.0] Linux\r\n"
    )
    done = run("bringup", "read", made, log, "--times", tmp_path / "times")
    assert (done.exit_code, done.stdout) == (0, "all 12 stages are as expected\n")
    rows = [json.loads(path.read_bytes()) for path in sorted((tmp_path / "times").iterdir())]
    assert [row["jobs"] for row in rows] == [1, 3, 7, 10, 14]
    assert all(row["replay_us"] > 0 for row in rows)


PLANTS: Mapping[str, tuple[Plant, tuple[str, str, str]]] = {
    "another GPU": (Plant(Kind.READS_AS, at("hub.IDENT1"), 0xE1133), ("identity", IDENTITY, "hub.IDENT1")),
    "another revision": (Plant(Kind.READS_AS, at("hub.IDENT1"), 0xF1124), ("identity", IDENTITY, "hub.IDENT1")),
    "another core": (Plant(Kind.READS_AS, at("core0.CTL_IDENT1"), 7), ("registers", IDENTITY, "core0.CTL_IDENT1")),
    "a register's reset": (Plant(Kind.READS_AS, at("hub.UIFCFG"), 0x46), ("registers", POLICY, "hub.UIFCFG")),
    "a stuck interrupt": (Plant(Kind.STUCK, at("hub.INT_STS"), 2), ("registers", POLICY, "hub.INT_STS")),
    "a stuck MMU": (Plant(Kind.STUCK, at("hub.MMU_CTL"), 0x80), ("irq", POLICY, "status")),
    "no interrupt": (Plant(Kind.NO_IRQ), ("irq", MISSING, "status")),
    "no interrupt of a job": (Plant(Kind.IRQ_MISSING, LENET + 6), ("lenet", MISSING, "status")),
    "no interrupt once": (Plant(Kind.IRQ_MISSING, THOUSAND + 3), ("thousand", MISSING, "attempt")),
    "late interrupts": (Plant(Kind.IRQ_LATE, value=900), ("timing", TIME, "us of the network")),
    "no fault": (Plant(Kind.LACKS, at("hub.MMU_CTL"), 0x08101000), ("fault", POLICY, "status")),
    "a copy": (Plant(Kind.OTHER_VALUE, COPY), ("copy", VALUE, "job0000-00f20000")),
    "a copy that is not there": (Plant(Kind.CLEAN_LOST, COPY), ("copy", MISSING, "job0000-00f20000")),
    "last bits": (Plant(Kind.LAST_BITS, LENET + 13), ("lenet", LAST_BITS, "job0013-01f60000")),
    "a value": (Plant(Kind.OTHER_VALUE, LENET + 5), ("lenet", VALUE, "job0005-00f20000")),
    "a page": (Plant(Kind.PAGE_NOT_WRITTEN, LENET + 7), ("lenet", MISSING, "job0007-00f23000")),
    "a clean": (Plant(Kind.CLEAN_LOST, LENET + 8), ("lenet", MISSING, "job0008-00f20000")),
    "one replay": (Plant(Kind.OTHER_VALUE, THOUSAND + 14 + 5), ("thousand", VALUE, "outputs")),
}


REQUESTS = {"a stuck MMU": 1, "no interrupt": 1, "no fault": 2, "no interrupt of a job": 4, "no interrupt once": 5}


@pytest.mark.parametrize("name", PLANTS)
def test_what_is_planted_is_named(made: Path, name: str) -> None:
    plant, wanted = PLANTS[name]
    found = findings(made, emulated(made, plant, REQUESTS.get(name, 10)))
    assert found, name
    assert (found[0].stage, found[0].kind, found[0].what) == wanted, found


def test_a_slower_gpu(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kit, "LATENCY_NS", 3 * kit.LATENCY_NS)
    (found,) = findings(made, emulated(made, Plant()))
    assert (found.stage, found.kind) == ("timing", TIME)
    assert found.found.endswith(" times as much")


def without(text: str, start: str) -> str:
    """The console without lines."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(start))


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda text: text[: text.index("stage lenet")], ("lenet", MISSING, "the console ends after copy")),
        (lambda text: without(text, "stage copy"), ("copy", MISSING, "the console ends after handed-back")),
        (
            lambda text: text[: text.index("stage fault")] + "exception address=0x0000000000001234\n!00001234\n",
            ("fault", MISSING, "the console ends after irq with an exception at 0x1234"),
        ),
        (
            lambda text: text.replace("stage power ok failed=0x00000000", "stage power failed failed=0xfe10010c"),
            ("power", MISSING, "0xfe10010c does not answer"),
        ),
        (
            lambda text: text.replace(
                "handed-back ok failed=0x00000000 left=0", "handed-back failed failed=0x0 left=9"
            ),
            ("handed-back", MISSING, "9 words left"),
        ),
        (
            lambda text: text.replace("register offset=0x00000008", "regi ter offset=0x00000008"),
            ("registers", MISSING, "1 lost or damaged, the first 0x00000008"),
        ),
        (
            lambda text: text.replace("output job0005-00f20000 sha256=", "output job0005-00f20000 sha="),
            ("lenet", MISSING, "1 lost or damaged, the first job0005-00f20000"),
        ),
        (lambda text: without(text, "time trace=3"), ("timing", MISSING, "1 lost or damaged, the first 3")),
        (lambda text: re.sub("request=0x.*", "request=0x00000000", text), ("speaks", MISSING, "0x00000000")),
        (lambda text: text.replace("midr=0x410fd083", "midr=0x410fd034"), ("world", IDENTITY, "0x410fd034")),
        (
            lambda text: text.replace(
                "expected=0x00f20000 seen=0x00100000", "expected=0x00f20000 seen=0x00001000"
            ),
            ("fault", POLICY, "0x00001000"),
        ),
    ],
)
def test_what_the_console_lacks(made: Path, change: Any, wanted: tuple[str, str, str]) -> None:
    text = (made / kit.EXPECTED).read_text(encoding="utf-8")
    assert change(text) != text
    found = findings(made, change(text))
    assert wanted in [(one.stage, one.kind, one.found) for one in found], found
    assert found[0].stage == wanted[0]


def test_a_log_of_another_kit(made: Path, tmp_path: Path) -> None:
    text = (made / kit.EXPECTED).read_text(encoding="utf-8")
    for change, found in ((r" kit=\S+", ""), (r" kit=\S+", " kit=0x01020304")):
        (tmp_path / "log").write_text(re.sub(change, found, text))
        done = run("bringup", "read", made, tmp_path / "log")
        assert done.exit_code == 2
        assert "log: the log of another kit: expected kit=0x" in done.stderr
        assert f"found {found.strip() or 'none'}; " in done.stderr


def test_what_is_no_kit(made: Path, tmp_path: Path) -> None:
    for words in (("read", tmp_path, made / kit.EXPECTED), ("run", tmp_path, "-o", tmp_path / "said")):
        done = run("bringup", *words)
        assert done.exit_code == 2
        assert done.stderr == (
            f"error: {tmp_path}: expected a folder of 'gramophone bringup make', found no request.bin\n"
        )


def test_a_request_that_is_not_there(made: Path) -> None:
    (found, *_) = findings(made, emulated(made, Plant(), 3))
    assert (found.stage, found.kind, found.what) == ("lenet", MISSING, "request")


def test_times_become_constants(made: Path, tmp_path: Path) -> None:
    """Those of a board that starts jobs in 50 us more than the model's 20."""
    text = (made / kit.EXPECTED).read_text(encoding="utf-8")
    for number, us in enumerate((74, 536, 1097, 1318, 1605)):
        text = re.sub(rf"(?m)^(time trace={number} .*?) us=\d+", rf"\1 us={us}", text)
    (tmp_path / "log").write_text(text)
    run("bringup", "read", made, tmp_path / "log", "--times", tmp_path / "times")
    pairs = [f"{made / kit.timed(n)}={tmp_path / 'times' / Path(kit.timed(n)).stem}.json" for n in range(5)]
    done = run("speed", "calibrate", *pairs, "-o", tmp_path / "my.toml", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["moved"]["start"]["value"] > 50
    assert found["errors"]["after"] < found["errors"]["before"]


def test_files_of_a_card(made: Path) -> None:
    assert kit.card(boards.load(boards.QEMU_VIRT), b"stub", b"request") == {}
    files = kit.card(boards.load("rpi4"), b"stub", b"request")
    assert (files["armstub8-gramophone.bin"], files["request.bin"]) == (b"stub", b"request")
    lines = files["config.txt"].decode().splitlines()
    assert {"armstub=armstub8-gramophone.bin", "initramfs request.bin 0x10000000", "kernel=kernel8.img"} <= {
        *lines
    }
    assert not (made / kit.CARD).exists()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", profile_firmware.NAMES)
def test_each_profile_makes_a_kit(made: Path, tmp_path: Path, name: str) -> None:
    """A device with a trust policy does not know the key of this kit's requests, and says so."""
    request = (made / kit.REQUEST).read_bytes()
    generated = profile_firmware.folder_of(name, "v3d42")
    fw = kit.write_firmware(generated, tmp_path / "firmware", profile.load("v3d42"), request)
    said = console.read(kit.emulate(fw, request[:STEP].ljust(len(request), b"\0"), "v3d42"))
    stages = ("speaks", "power", "identity", "registers", "world", "handed-back")
    assert all(said.stages[stage].ok for stage in stages)
    trusts = isinstance(profile_firmware.anchor(name), PublicKey)
    assert said.stages["irq"].ok == trusts, said.stages["irq"]


def test_a_second_boot_counts(made: Path) -> None:
    text = (made / kit.EXPECTED).read_text(encoding="utf-8")
    assert findings(made, text[: text.index("stage lenet")] + text) == []


def test_lines_that_a_runner_joins() -> None:
    said = "QEMU x stage speaks ok gpu=0x0b000000 stage power failed failed=0x00000001 !00000002"
    found = console.read(console.lines_of(said))
    assert list(found.stages) == ["speaks", "power"]
    assert found.ended
    words = "stage power ok failed=0x00000000 =00fff000 qemu-system-aarch64: a module is missing"
    assert console.lines_of(words).splitlines()[-2:] == ["=00fff000", "qemu-system-aarch64: a module is missing"]


def test_what_is_no_console(made: Path, tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.write_text("=00fff000\n")
    done = run("bringup", "read", made, file)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {file}: no console of a bring-up: expected lines as 'stage speaks ok'")
    done = run("bringup", "read", made, made / kit.EXPECTED, "--times", tmp_path)
    assert (done.exit_code, done.stderr) == (2, f"error: --times {tmp_path}: expected a new folder\n")


def test_what_makes_no_kit(made: Path, lenet: Path, tmp_path: Path) -> None:
    key = made.parent / "key.pem"
    words = "bringup", "make", made.parent / "out"
    more = "--signing-key", key, "-o", tmp_path / "kit"
    done = run(*words, Path("tests/support/lenet.v3d71.raw.gtr").absolute(), *more)
    assert done.exit_code == 2
    assert "expected a trace for v3d42, as " in done.stderr
    done = run(*words, lenet / "net.gtr", *more)
    assert done.exit_code == 2
    assert "no value for data" in done.stderr
    other = tmp_path / "other.pem"
    other.write_bytes(private_pem(generate(Algorithm.ES256)))
    done = run(*words, lenet / "net.gtr", *given(lenet), "--signing-key", other, "-o", tmp_path / "kit")
    assert done.exit_code == 2
    assert "the kit's emulation: stage irq: expected ok, found failed: " in done.stderr
    bad = tmp_path / "bad"
    shutil.copytree(made.parent / "out", bad)
    (bad / "main.c").unlink()
    done = run("bringup", "make", bad, lenet / "net.gtr", *given(lenet), *more)
    assert done.exit_code == 2
    assert f"{bad}: expected a folder of 'generate' for a bare-metal board, found no main.c" in done.stderr
    assert not (tmp_path / "kit").exists()
