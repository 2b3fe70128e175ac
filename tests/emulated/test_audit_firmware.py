# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone audit-firmware` on compiled firmware: nothing in ours, everything that was planted."""

from __future__ import annotations

import hashlib
import json
import mmap
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.audit_firmware import target
from host_tools.audit_firmware.analysis import Analysis
from host_tools.audit_firmware.image import of_elf
from host_tools.audit_firmware.judge import findings
from host_tools.audit_firmware.rules import FirmwareFinding
from host_tools.cli import main
from host_tools.runners import firmware, mailbox, unicorn
from host_tools.runners.buffers import bind
from host_tools.runners.firmware import BINARY, ELF
from host_tools.vgpu.binding import VirtualGpu
from signing.keys import Algorithm, generate
from signing.sign import FileSigner
from tee_replayer.generator.evidence import Evidence
from tests.support import replayer_samples as s
from tests.support.figures import documented, is_near
from tests.support.firmware_samples import GCC, kept, values
from tests.support.image_samples import Packed
from tests.support.planted import DEFECTS, Defect, plant
from tests.support.replayer_samples import signed, trace
from tests.support.sampling import SomeOf
from trace_format.operators import Operator

PAINT = 0xA5
GROUPS = sorted({defect.group for defect in DEFECTS.values()})


@pytest.fixture(scope="session")
def good() -> Path:
    """A firmware with its objects, for the emulated board."""
    if shutil.which(GCC) is None:
        pytest.skip(f"{GCC} is missing: apt-get install gcc-aarch64-linux-gnu")
    return firmware.build(s.KEY).folder


@pytest.fixture(scope="session")
def logging() -> Path:
    """One that keeps a replay log."""
    return kept("v3d42", evidence=Evidence(log=True))


def audited(*arguments: object, status: int = 0) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["audit-firmware", *map(str, arguments), "--json"], catch_exceptions=False)
    assert done.exit_code == status, done.output
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def judged(folder: Path) -> list[FirmwareFinding]:
    image = of_elf("firmware", (folder / ELF).read_bytes())
    return findings(Analysis(image, target.of_image(image)))


def is_found(defect: Defect, found: list[FirmwareFinding]) -> bool:
    return any(item.rule.id == defect.rule and defect.where in f"{item.place} {item.text}" for item in found)


def folder_of(name: str, request: pytest.FixtureRequest) -> Path:
    if name == "qemu-virt":
        return Path(request.getfixturevalue("good"))
    if name == "qemu-virt, Mali":
        return firmware.build(s.KEY, "mali_g71").folder
    return Path(request.getfixturevalue(name))


@pytest.fixture
def key(tmp_path: Path) -> Path:
    (tmp_path / "pub.pem").write_bytes(s.KEY.pem())
    return tmp_path / "pub.pem"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("qemu-virt", marks=pytest.mark.exhaustive),  # its folder and key are judged below
        pytest.param("qemu-virt, Mali", marks=pytest.mark.exhaustive),  # as on the HiKey960
        pytest.param("rpi4", marks=pytest.mark.exhaustive),  # its image is judged below
        "hikey960",
    ],
)
def test_nothing_is_found_in_ours(name: str, request: pytest.FixtureRequest, key: Path) -> None:
    found = audited(folder_of(name, request), "--key", key)
    (only,) = found["firmware"]
    assert only["findings"] == []
    assert only["not_judged"].keys() == {"GF609", "GF801"}
    assert all(row["is_bound"] for row in only["stack"]["worst"])
    computed = [row for row in only["device_stores"] if row["device"] == "gpu" and not row["targets"]]
    assert len(computed) == 1, "write_register's"
    assert computed[0]["guard"]["lookup"].startswith("write_register")


@pytest.mark.exhaustive
def test_a_firmware_with_evidence() -> None:
    """No error; BearSSL calls its hash functions through tables, so one warning, and a loop that is known."""
    evidence = Evidence(log=True, hashes=True, attestation=True)
    (only,) = audited(kept("v3d42", evidence=evidence))["firmware"]
    assert [row["rule"] for row in only["findings"] if row["allowed"] is None] == ["GF305"]
    (known,) = (row for row in only["findings"] if row["allowed"])
    assert (known["rule"], known["where"].partition(".")[0]) == ("GF401", "br_ecdsa_i31_sign_raw")


@pytest.mark.parametrize(
    "platform",
    [
        pytest.param("qemu-virt", marks=pytest.mark.exhaustive),
        "rpi4",
        pytest.param("hikey960", marks=pytest.mark.exhaustive),
    ],
)
def test_nothing_is_found_in_our_images(
    platform: str, images: Callable[[str], Packed], tmp_path: Path, key: Path
) -> None:
    """Of the packed image, in which the firmware has no symbols."""
    (tmp_path / "image").write_bytes(images(platform).image)
    (only,) = audited(tmp_path / "image", "--key", key)["firmware"]
    assert (only["kind"], only["has_symbols"], only["platform"]) == ("raw", False, platform)
    assert only["findings"] == []
    assert only["not_judged"].keys() == {"GF101", "GF104", "GF606", "GF608", "GF609", "GF610", "GF701", "GF801"}


@pytest.mark.parametrize("group", GROUPS)
def test_planted_defects_are_found(good: Path, logging: Path, tmp_path: Path, group: int) -> None:
    """Of a group, all at once, in one firmware."""
    planted = {name: defect for name, defect in DEFECTS.items() if defect.group == group}
    keeps_log = any(defect.in_log for defect in planted.values())
    found = judged(plant(logging if keeps_log else good, tmp_path / "out", planted.values()))
    assert [name for name, defect in planted.items() if not is_found(defect, found)] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_all_that_is_found(good: Path, logging: Path, tmp_path: Path, name: str) -> None:
    defect = DEFECTS[name]
    found = judged(plant(logging if defect.in_log else good, tmp_path / "out", [defect]))
    assert is_found(defect, found)
    assert {item.rule.id for item in found} - defect.also == {defect.rule}


@pytest.mark.exhaustive
def test_nothing_is_found_where_a_log_is_kept(logging: Path) -> None:
    assert judged(logging) == []


def test_there_are_enough() -> None:
    assert len(DEFECTS) >= 15


def test_another_key(good: Path, tmp_path: Path) -> None:
    other = FileSigner(generate(Algorithm.ES256)).public
    (tmp_path / "pub.pem").write_bytes(other.pem())
    options = (good / ELF, "--key", tmp_path / "pub.pem")
    found = audited(*options, status=1)
    assert [row["rule"] for row in found["firmware"][0]["findings"]] == ["GF602"]
    assert found["counts"] == {"error": 1, "warning": 0, "note": 0}
    (tmp_path / "allow.toml").write_text('[[allow]]\nrule = "GF602"\nwhere = "gr_device"\nreason = "ours"\n')
    accepted = audited(*options, "--allow", tmp_path / "allow.toml", "--sarif", tmp_path / "log.sarif")
    assert accepted["firmware"][0]["findings"][0]["allowed"] == "ours"
    (result,) = json.loads((tmp_path / "log.sarif").read_text())["runs"][0]["results"]
    assert (result["ruleId"], result["suppressions"][0]["justification"]) == ("GF602", "ours")


@pytest.mark.exhaustive  # tests/emulated/test_back_doors.py repeats builds that differ
def test_one_changed_branch(good: Path, tmp_path: Path) -> None:
    """Of an image without symbols: the same sources and compiler give other bytes, and the function is named."""
    data = bytearray((good / BINARY).read_bytes())
    image = of_elf("firmware", (good / ELF).read_bytes())
    function = image.symbol("check_signature")
    assert function is not None
    rows = Analysis(image, target.of_image(image)).program.functions[function.address].instructions
    at = next(address for address, row in rows.items() if row.mnemonic in ("b.ne", "b.eq"))
    data[at] ^= 1  # the opposite condition
    (tmp_path / "firmware.bin").write_bytes(data)
    (only,) = audited(tmp_path / "firmware.bin", "--rebuild", status=1)["firmware"]
    (finding,) = only["findings"]
    assert (finding["rule"], finding["where"], finding["address"]) == ("GF801", "check_signature", at)
    assert "1 words differ: expected 'b." in finding["text"]


def test_a_folder_is_what_it_would_flash(good: Path, tmp_path: Path) -> None:
    """A back-doored firmware.bin beside a good firmware.elf: the ELF file was judged, and the other one packed."""
    folder = tmp_path / "out"
    shutil.copytree(good, folder)
    audited(folder)
    data = bytearray((folder / BINARY).read_bytes())
    data[0x4C] ^= 1
    for content, why in (
        (bytes(data), f"offset 0x4c: expected {data[0x4C] ^ 1:#04x}, found {data[0x4C]:#04x}"),
        (bytes(data[:-4]), f"expected {len(data)} bytes, found {len(data) - 4}"),
        (b"", f"expected {len(data)} bytes, found 0"),
    ):
        (folder / BINARY).write_bytes(content)
        for options in ([], ["--rebuild"]):
            result = CliRunner().invoke(main, ["audit-firmware", str(folder), *options])
            assert (result.exit_code, result.stdout) == (2, "")
            assert f"{folder / BINARY}: not the bytes of {folder / ELF}" in result.stderr
            assert why in result.stderr
        image = tmp_path / "image"
        result = CliRunner().invoke(main, ["flash", str(folder), "-o", str(image)])
        assert (result.exit_code, result.stdout, image.exists()) == (2, "", False)
        assert f"{folder / BINARY}: not the bytes of {folder / ELF}" in result.stderr


def test_all_reports_name_the_same_bytes(good: Path, tmp_path: Path, some_of: SomeOf) -> None:
    """Of the file that was read, and of what is flashed: of the folder, the ELF file, the binary and the image."""
    elf, flashed = (hashlib.sha256((good / name).read_bytes()).hexdigest() for name in (ELF, BINARY))
    packed = CliRunner().invoke(main, ["flash", str(good), "-o", str(tmp_path / "image")])
    assert f"sha256 {flashed}" in packed.stdout
    files = ((good, elf), (good / ELF, elf), (good / BINARY, flashed), (tmp_path / "image", flashed))
    for path, file in some_of(files, 1):
        (only,) = audited(path)["firmware"]
        assert (only["sha256"], only["flashed_sha256"]) == (file, flashed)
        said = CliRunner().invoke(main, ["audit-firmware", str(path)]).stdout.splitlines()
        assert {f"file             sha256 {file}", f"flashed          sha256 {flashed}"} <= {*said}
    size = subprocess.run(["make", "-s", "-C", str(good), "size"], check=True, capture_output=True, text=True)
    assert size.stdout.splitlines()[-2:] == [f"{ELF}  sha256 {elf}", f"{BINARY}  sha256 {flashed}"]


def test_a_build_that_is_repeated(good: Path) -> None:
    (only,) = audited(good, "--rebuild")["firmware"]
    assert "GF801" not in only["not_judged"]
    assert only["rebuilt_with"].keys() == {"gramophone", "AWS-LC", GCC, GCC.replace("gcc", "ld")}


@pytest.mark.exhaustive  # the test above repeats a build
def test_operators_are_of_the_device_file_where_a_build_is_repeated() -> None:
    """With them no byte differs, and nothing is found in them, though constants lie between their code."""
    operators = (Operator.COPY, Operator.YOLOV3_DETECTION_OUTPUT)
    folder = firmware.build(s.KEY, operators=operators).folder
    (only,) = audited(folder, "--rebuild")["firmware"]
    assert "GF801" not in only["not_judged"]
    assert only["features"] == ["operators"]
    assert only["findings"] == []


def test_the_stack_of_a_run_is_within_the_bound(good: Path) -> None:
    """The bound is proved from the code; a run with a good signature, on Unicorn, comes close to it."""
    fw = firmware.load(good)
    image = of_elf("firmware", (good / ELF).read_bytes())
    analysis = Analysis(image, target.of_image(image))
    assert analysis.stack is not None
    low, high = analysis.stack
    dram = np.frombuffer(mmap.mmap(-1, 1 << 20), np.uint8)
    carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
    sample = trace()
    mailbox.request(dram.data, signed(sample), bind(sample, values(sample, 1)), 1)
    gpu = VirtualGpu("v3d42", {fw.board.carveout_base: carveout}, latency_ns=6000)
    machine = unicorn.Machine(fw, gpu, carveout, dram)
    memory: Any = machine._uc
    memory.mem_write(low + 8, bytes([PAINT]) * (high - low - 8))
    machine.run()
    left = bytes(memory.mem_read(low + 8, high - low - 8))
    used = len(left.lstrip(bytes([PAINT])))
    bound = analysis.worst[image.entries[0]].bytes
    print(f"{used} bytes of stack used, at most {bound} by the code")
    assert bound // 2 < used <= bound
    for page, pattern in (
        ("docs/EVIDENCE.md", r"([\d,]+) bytes of stack at most, by the code"),
        ("docs/AUDIT-FIRMWARE.md", r"stack at most ([\d,]+) bytes from _start"),
        ("docs/AUDIT-FIRMWARE.md", r"One used all of the ([\d,]+) bytes"),
    ):
        assert is_near(documented(page, pattern), bound), page
