# SPDX-License-Identifier: BSD-2-Clause
"""`audit-firmware --device`: what differs from the device file is named, with its key."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from host_tools.audit_firmware.analysis import Analysis
from host_tools.audit_firmware.asked import findings as differences
from host_tools.audit_firmware.image import of_bytes, of_elf
from host_tools.audit_firmware.target import of_image
from host_tools.cli import main
from host_tools.runners.firmware import BINARY, ELF
from tee_replayer.generator import device_record, profiles
from tee_replayer.generator.device_file import DeviceFileError, text_of
from tests.support import device_files
from tests.support.firmware_samples import kept
from tests.support.replayer_samples import KEY
from trace_format.toml_table import loads


@pytest.fixture(scope="module")
def good() -> Path:
    return kept("v3d42")


@pytest.fixture
def record(good: Path) -> dict[str, Any]:
    return loads((good / device_record.FILE).read_bytes(), DeviceFileError)


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["audit-firmware", *map(str, words)], catch_exceptions=False)


@pytest.fixture(scope="module")
def analyses(good: Path) -> list[Analysis]:
    """With symbols, and without."""
    elf, raw = good / ELF, good / BINARY
    images = [of_elf(str(elf), elf.read_bytes()), of_bytes(str(raw), raw.read_bytes(), 0)]
    return [Analysis(image, of_image(image)) for image in images]


def test_the_record_beside_the_firmware_is_compared(good: Path, tmp_path: Path) -> None:
    done = run(good, "--json")
    (only,) = json.loads(done.stdout)["firmware"]
    assert (done.exit_code, only["profile"], only["features"], only["findings"]) == (0, "plain", [], [])
    assert "not compared: clock, device_id" in only["not_judged"]["GF609"]
    shutil.copy(good / BINARY, tmp_path)
    (only,) = json.loads(run(tmp_path / BINARY, "--json").stdout)["firmware"]
    assert (only["profile"], only["features"]) == (None, None)
    assert only["not_judged"]["GF609"] == "no --device was given, and no device.toml is beside the image"


@pytest.mark.parametrize(
    ("key", "changes", "text"),
    [
        ("gpu", {"gpu": "v3d71"}, "expected v3d71, found v3d42"),
        ("platform", {"platform": "rpi4"}, "expected rpi4, found qemu-virt"),
        ("key_id", {"key_id": "11" * 16}, f"expected {'11' * 16}, found {KEY.kid.hex()}"),
        ("min_security_version", {"min_security_version": 2}, "expected 2, found 0"),
        ("carveout_bytes", {"carveout_bytes": 1 << 20}, "expected 1048576, found 268435456"),
        ("mmu", {"mmu": True}, "expected true, found false"),
        *(
            (
                f"features.{name}",
                {"profile": row.name, "features": row.features.rows},
                "expected true, found false",
            )
            for row in profiles.load().values()
            for name in row.features.names
            if not row.features.trust
        ),
        (
            "features.trust",
            {"key_id": None, "trust_policy_id": "11" * 16, "profile": "encrypted"},
            "expected true",
        ),
        ("algorithms.es384", {"algorithms": ["es384"]}, "expected true, found false"),
    ],
)
def test_what_differs_is_named(
    key: str, changes: dict[str, Any], text: str, analyses: list[Analysis], record: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "asked.toml"
    file.write_text(text_of({name: value for name, value in {**record, **changes}.items() if value is not None}))
    asked = device_record.read(file)
    with_symbols, without = ({row.where: row.text for row in differences(each, asked)} for each in analyses)
    assert with_symbols[key].startswith(text)
    seen = "." not in key or key == "features.trust"
    assert (without.get(key, "").startswith(text)) == seen


def test_a_device_file_is_compared_as_its_record_is(good: Path, tmp_path: Path) -> None:
    (tmp_path / "pub.pem").write_bytes(KEY.pem())
    file = device_files.written(tmp_path, profile=None, features={"steps": True, "store": True}, carveout_mib=32)
    done = run(good, "--device", file, "--json")
    (only,) = json.loads(done.stdout)["firmware"]
    assert {row["where"]: (row["rule"], row["text"]) for row in only["findings"]} == {
        "carveout_bytes": ("GF609", "expected 33554432, found 268435456"),
        "features.steps": ("GF609", "expected true, found false"),
        "features.store": ("GF609", "expected true, found false"),
        "features": ("GF610", "untested combination: steps, store"),
    }
    assert done.exit_code == 1


def test_a_build_is_repeated_by_its_device_file(good: Path, record: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "asked.toml"
    file.write_text(text_of({**record, "profile": "joint", "features": {"networks": 2}}))
    done = run(good, "--rebuild", "--device", file)
    assert done.exit_code == 1
    assert "error    GF801" in done.stdout
    file.write_text(
        text_of({**record, "profile": "", "features": {"encryption": True}, "fleet_key_id": "11" * 16})
    )
    file.write_text(file.read_text().replace('profile = ""\n', ""))
    refused = run(good, "--rebuild", "--device", file)
    assert refused.exit_code == 2
    assert "--fleet-key: the device file names one, and --rebuild compiles it in" in refused.stderr
