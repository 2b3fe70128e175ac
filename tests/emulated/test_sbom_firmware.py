# SPDX-License-Identifier: BSD-2-Clause
"""The bill of materials of compiled firmware: compiler, crypto libraries, and the hash of what is flashed."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.runners import libraries
from tee_replayer.generator.evidence import Evidence
from tests.support.bills import listed, parts, validated
from tests.support.firmware_samples import GCC, compiled


def test_compiled_firmware(tmp_path: Path) -> None:
    out = compiled(tmp_path, "v3d42", evidence=Evidence(log=True))
    done = CliRunner().invoke(main, ["publish", "sbom", str(out), "-o", str(tmp_path / "bill.json")])
    assert done.exit_code == 0, done.stderr
    bill = validated(tmp_path / "bill.json")
    subject, found = bill["metadata"]["component"], parts(bill)
    assert subject["hashes"][0]["content"] == hashlib.sha256((out / "firmware.bin").read_bytes()).hexdigest()
    version = subprocess.run([GCC, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    assert (found["gcc"]["version"], found["gcc"]["scope"]) == (version, "excluded")
    crypto = libraries.source()
    assert crypto.aws_lc is not None
    assert found["bearssl"]["version"] == crypto.bearssl.name
    assert found["aws-lc"]["version"] == crypto.aws_lc.name
    files = listed(found["bearssl"]) | listed(found["aws-lc"])
    assert {".c", ".S"} <= {Path(name).suffix for name in files}
    files |= {name: part["hashes"][0]["content"] for name, part in found.items() if part["type"] == "file"}
    assert files == {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in out.rglob("*")
        if path.is_file() and path.suffix != ".o"
    }


@pytest.mark.exhaustive
def test_before_it_is_compiled(tmp_path: Path) -> None:
    out = compiled(tmp_path, "v3d42")
    subprocess.run(["make", "-s", "-C", str(out), "clean"], check=True)
    done = CliRunner().invoke(main, ["publish", "sbom", str(out), "-o", str(tmp_path / "bill.json")])
    assert done.exit_code == 0, done.stderr
    bill = validated(tmp_path / "bill.json")
    assert "hashes" not in bill["metadata"]["component"]
    assert {part["type"] for part in bill["components"]} == {"file", "library"}
    assert "bearssl" not in parts(bill), "it is for a replay log"
