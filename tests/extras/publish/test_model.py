# SPDX-License-Identifier: BSD-2-Clause
"""Bills of materials of traces: as CycloneDX's own schema wants them, and what is in them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.demo import RAW
from signing.sign import sign_trace
from tests.support import bad_input
from tests.support import replayer_samples as s
from tests.support.bills import parts, validated
from tests.support.signing_samples import ES256
from trace_format.schema import SlotKind
from trace_format.trace import Trace


def bill(tmp_path: Path, data: bytes) -> dict[str, object]:
    file, out = tmp_path / "net.gtr", tmp_path / "net.cdx.json"
    file.write_bytes(data)
    done = CliRunner().invoke(main, ["publish", "sbom", str(file), "-o", str(out)])
    assert done.exit_code == 0, done.stderr
    return validated(out)


def test_a_recording_of_a_network(tmp_path: Path) -> None:
    """LeNet of the demo: what ran in the guest, what was read, what goes in and out."""
    data = RAW.read_bytes()
    found = bill(tmp_path, data)
    trace = Trace.parse(data)
    subject = found["metadata"]["component"]  # type: ignore[index]
    assert (subject["type"], subject["name"]) == ("machine-learning-model", "lenet")
    assert subject["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}]
    assert subject["modelCard"]["modelParameters"]["outputs"] == [{"format": "prob: float32[10]"}]
    facts = {row["name"]: row["value"] for row in subject["properties"]}
    assert facts["gramophone:trace_id"] == trace.trace_id.hex()
    assert "gramophone:claimed_signed_by" not in facts
    listed = parts(found)
    assert listed["ncnn"]["type"] == "framework"
    assert listed["network.bin"]["hashes"][0]["content"] == trace.notes["weights_sha256"]
    packages = {row["name"] for row in listed.values() if "purl" in row}
    assert packages == trace.notes["packages"].keys() - {"kernel", "ncnn"}


def test_a_signed_trace_without_notes(tmp_path: Path) -> None:
    given = s.trace(meta={"name": "net", "security_version": 3})
    weights = replace(given.slots[0], name="w", kind=SlotKind.PARAMETER)
    data = sign_trace(given.with_(slots=[*given.slots, weights]).build(), ES256)
    found = bill(tmp_path, data)
    subject = found["metadata"]["component"]  # type: ignore[index]
    facts = {row["name"].removeprefix("gramophone:"): row["value"] for row in subject["properties"]}
    assert facts["claimed_signed_by"] == ES256.kid.hex()
    assert (facts["unsigned_parameters"], facts["security_version"]) == ("1", "3")
    inputs = subject["modelCard"]["modelParameters"]["inputs"]
    assert inputs == [{"format": "in: float32[2,3]"}, {"format": "w: float32[2,3]"}]


def test_notes_that_say_nonsense(tmp_path: Path) -> None:
    """They are a claim: what is no hash or package is left out, and the bill is still one."""
    given = s.trace(meta={"name": "net"})
    notes = {"packages": [1, 2], "weights_sha256": 7, "param_sha256": "short", "passes": "all"}
    found = bill(tmp_path, given.with_(notes=notes).build())
    assert not found.get("components")


@pytest.mark.parametrize("what", bad_input.TRACE)
def test_what_is_no_trace(what: str, tmp_path: Path) -> None:
    file, out = tmp_path / "net.gtr", tmp_path / "out"
    file.write_bytes(bad_input.TRACE[what])
    done = CliRunner().invoke(main, ["publish", "sbom", str(file), "-o", str(out)])
    assert done.exit_code == 2
    assert str(file) in done.stderr
    assert done.stderr.count("\n") == 1
    assert not out.exists()
