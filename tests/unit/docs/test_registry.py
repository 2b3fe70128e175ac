# SPDX-License-Identifier: BSD-2-Clause
"""The recipes of docs/REGISTRY.md: signed traces in registries on loopback, pushed and pulled with oras."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from signing import key_files
from tests.support import replayer_samples as s
from tests.support.places import CHECKOUT
from tests.support.registry import docker_registry, small_registry

PAGE = (CHECKOUT / "docs" / "REGISTRY.md").read_text(encoding="utf-8")
TRACE = "application/vnd.gramophone.trace.v1"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
SIGNED = s.signed(s.trace(meta={"name": "small"}))
BESIDE = {
    "lenet.intoto.jsonl": "application/vnd.dsse.envelope.v1+json",
    "lenet.cdx.json": "application/vnd.cyclonedx+json",
    "lenet.suit": "application/suit-envelope+cose",
}


def recipe(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lenet.sgtr").write_bytes(SIGNED)
    (tmp_path / "empty.json").write_text("{}")
    (tmp_path / "pub.pem").write_bytes(s.KEY.pem())
    (tmp_path / "key.pem").write_bytes(key_files.private_pem(s.ES256.key))
    signer = ["--signing-key", str(tmp_path / "key.pem")]
    for name, words in {
        "lenet.intoto.jsonl": ["publish", "provenance", *signer],
        "lenet.cdx.json": ["publish", "sbom"],
        "lenet.suit": ["publish", "suit", "export", "--vendor", "example.com", *signer],
    }.items():
        command = [*words, str(tmp_path / "lenet.sgtr"), "-o", str(tmp_path / name)]
        assert CliRunner().invoke(main, command, catch_exceptions=False).exit_code == 0
    return tmp_path


@pytest.fixture(params=["small", "docker-registry"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "small":
        with small_registry() as address:
            yield address
    else:
        with docker_registry(tmp_path) as address:
            yield address


def run_python(folder: Path, address: str) -> None:
    text = recipe("python").replace('hostname="registry.example"', f'hostname="{address}", insecure=True')
    text = text.replace("registry.example", address)
    done = subprocess.run([sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def verify(path: Path, key: Path) -> int:
    return CliRunner().invoke(main, ["verify", "trace", str(path), "--key", str(key)]).exit_code


def raw_manifest(address: str) -> bytes:
    request = Request(f"http://{address}/v2/models/lenet/manifests/1", headers={"Accept": MANIFEST})
    with urlopen(request) as answer:
        return bytes(answer.read())


def manifest(address: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(raw_manifest(address))
    return found


def check(folder: Path, address: str) -> None:
    """What was pulled is what was pushed, and is listed under its own types."""
    assert (folder / "pulled" / "lenet.sgtr").read_bytes() == SIGNED
    assert verify(folder / "pulled" / "lenet.sgtr", folder / "pub.pem") == 0
    found = manifest(address)
    assert found.get("artifactType", found["config"]["mediaType"]) == TRACE
    (layer,) = found["layers"]
    assert layer["mediaType"] == TRACE
    assert layer["digest"] == f"sha256:{hashlib.sha256(SIGNED).hexdigest()}"
    assert layer["annotations"]["org.opencontainers.image.title"] == "lenet.sgtr"


def check_beside(folder: Path) -> None:
    """What was attached came back as it was, and is about the trace that came with it."""
    pulled = folder / "pulled"
    for name in BESIDE:
        assert (pulled / name).read_bytes() == (folder / name).read_bytes()
    key = ["--key", str(folder / "pub.pem")]
    for words in (
        ["verify", "provenance", str(pulled / "lenet.intoto.jsonl"), "--trace", str(pulled / "lenet.sgtr")],
        ["publish", "suit", "import", str(pulled / "lenet.suit"), "-o", str(folder / "again.sgtr")],
    ):
        assert CliRunner().invoke(main, [*words, *key], catch_exceptions=False).exit_code == 0
    assert (folder / "again.sgtr").read_bytes() == SIGNED


def test_what_is_attached_is_listed(folder: Path) -> None:
    """By a registry of version 1.1, which Debian's is not."""
    with small_registry() as address:
        run_python(folder, address)
        digest = f"sha256:{hashlib.sha256(raw_manifest(address)).hexdigest()}"
        with urlopen(f"http://{address}/v2/models/lenet/referrers/{digest}") as answer:
            listed = json.load(answer)["manifests"]
    assert sorted(one["artifactType"] for one in listed) == sorted(BESIDE.values())


def test_oras_for_python(registry: str, folder: Path) -> None:
    run_python(folder, registry)
    check(folder, registry)
    check_beside(folder)


def test_the_command_oras(registry: str, folder: Path) -> None:
    if shutil.which("oras") is None:
        pytest.skip("oras is missing: https://oras.land/docs/installation")
    text = recipe("sh").replace("registry.example", registry)
    text = re.sub(r"^(oras \w+)", r"\1 --plain-http", text, flags=re.MULTILINE)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command, environment = ["sh", "-ec", text], os.environ | {"PATH": path}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check(folder, registry)


def test_another_file_under_the_same_tag(folder: Path) -> None:
    """All digests are right, so the client takes it; the signature is what shows it."""
    damaged = bytearray(SIGNED)
    damaged[-1] ^= 1
    (folder / "lenet.sgtr").write_bytes(damaged)
    with small_registry() as address:
        run_python(folder, address)
    assert (folder / "pulled" / "lenet.sgtr").read_bytes() == damaged
    assert verify(folder / "pulled" / "lenet.sgtr", folder / "pub.pem") == 1
