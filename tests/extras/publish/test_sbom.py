# SPDX-License-Identifier: BSD-2-Clause
"""Bills of materials: as CycloneDX's own schema wants them, and what is in them. Firmware: tests/emulated."""

from __future__ import annotations

import hashlib
import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from tee_replayer.generator.boards import OPTEE
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import crypto_trees
from tests.support.bills import listed, parts, validated
from tests.support.places import CHECKOUT
from tests.support.signing_samples import ES256


def sbom(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["publish", "sbom", *map(str, args)])


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("host") / "host.json"
    done = sbom("-o", path)
    assert done.exit_code == 0, done.stderr
    return validated(path)


def test_the_host_tools_have_their_sources(host: dict[str, Any]) -> None:
    assert host["metadata"]["component"]["name"] == "gramophone"
    assert host["metadata"]["component"]["version"] == metadata.version("gramophone")
    assert "BSD-2-Clause" in host["metadata"]["component"]["licenses"][0]["expression"]
    for package in ("trace_format", "signing", "host_tools", "tee_replayer", "baremetal"):
        found = listed(parts(host)[package])
        sources = {path.relative_to(CHECKOUT / package).as_posix() for path in (CHECKOUT / package).rglob("*.py")}
        assert sources <= found.keys()
        for name, digest in found.items():
            assert hashlib.sha256((CHECKOUT / package / name).read_bytes()).hexdigest() == digest, name


def test_the_host_tools_need_installed_packages(host: dict[str, Any]) -> None:
    for name in ("numpy", "cryptography", "click"):
        assert parts(host)[name]["purl"] == f"pkg:pypi/{name}@{metadata.version(name)}"
    assert "pycparser" in parts(host), "what cffi needs"
    assert "pytest" not in parts(host), "an extra"
    needs = {row["ref"]: row.get("dependsOn", []) for row in host["dependencies"]}
    assert needs["pypi:cffi"] == ["pypi:pycparser"]
    assert {"pypi:numpy", "package:signing"} <= set(needs["pypi:gramophone"])
    for name, package in (("bearssl", "bearssl"), ("aws-lc", "rust-aws-lc-sys")):
        version = parts(host)[name]["version"]
        assert version
        assert parts(host)[name]["purl"].startswith(f"pkg:deb/debian/{package}@")


def test_a_folder_for_optee(tmp_path: Path) -> None:
    out = generate(
        Options("v3d42", platform_of(OPTEE), ES256.public, crypto_trees.empty(tmp_path)), tmp_path / "out"
    )
    done = sbom(out, "-o", tmp_path / "out.json")
    assert done.exit_code == 0, done.stderr
    bill = validated(tmp_path / "out.json")
    subject = bill["metadata"]["component"]
    assert (subject["type"], subject["name"]) == ("firmware", "gramophone-replayer-optee")
    said = {row["name"]: row["value"] for row in subject["properties"]}
    assert said["gramophone:crypto"] == "AWS-LC of unknown version (unverified)"
    assert said["gramophone:gpu_profile"].startswith("v3d42 0x")
    files = {name: part for name, part in parts(bill).items() if part["type"] == "file"}
    found = listed(parts(bill)["aws-lc"]) | {name: part["hashes"][0]["content"] for name, part in files.items()}
    assert found == {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in out.rglob("*")
        if path.is_file()
    }


def test_the_same_bill_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = generate(
        Options("v3d42", platform_of(OPTEE), ES256.public, crypto_trees.empty(tmp_path)), tmp_path / "out"
    )
    bills = []
    for time in ("1700000000", "1700000000", "1700000001"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", time)
        assert sbom(out, "-o", tmp_path / "bill.json").exit_code == 0
        bills.append((tmp_path / "bill.json").read_bytes())
    assert bills[0] == bills[1] != bills[2]
    assert json.loads(bills[0])["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"


def test_what_is_wrong_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "bill.json"
    (tmp_path / "replayer.h").write_text("/* something else */\n")
    done = sbom(tmp_path, "-o", target)
    assert done.exit_code == 2
    assert "replayer.h: expected a head that 'gramophone generate' writes" in done.stderr
    done = sbom(tmp_path / "none", "-o", target)
    assert (done.exit_code, "none: No such file" in done.stderr) == (2, True)
    out = generate(
        Options("v3d42", platform_of(OPTEE), ES256.public, crypto_trees.empty(tmp_path)), tmp_path / "out"
    )
    (out / "damaged.o").write_bytes(b"\x7fELF")
    done = sbom(out, "-o", target)
    assert (done.exit_code, "damaged.o: not an object file" in done.stderr) == (2, True)
    (out / "damaged.o").unlink()
    (out / "ta" / "linked.c").symlink_to("/etc/hostname")
    done = sbom(out, "-o", target)
    assert (done.exit_code, "linked.c: expected a file or a folder, found" in done.stderr) == (2, True)
    (out / "ta" / "linked.c").unlink()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    done = sbom(out, "-o", target)
    assert (done.exit_code, "SOURCE_DATE_EPOCH: expected seconds since 1970" in done.stderr) == (2, True)
    assert not target.exists()


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("cyclonedx", "host_tools.extras.publish.sbom"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cyclonedx", None)
    done = sbom("-o", tmp_path / "bill.json")
    assert done.exit_code == 2
    assert "is missing: pip install 'gramophone[sbom]'" in done.stderr


def test_the_validator_finds_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "bill.json"
    assert sbom("-o", path).exit_code == 0
    bill = json.loads(path.read_text())
    bill["components"][0]["type"] = "song"
    path.write_text(json.dumps(bill))
    with pytest.raises(AssertionError, match="song"):
        validated(path)
