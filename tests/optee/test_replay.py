# SPDX-License-Identifier: BSD-2-Clause
"""The demo network through OP-TEE's pseudo-TA: the bytes of the bare-metal firmware; refusals, each its own."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools import runners
from host_tools.cli import main
from host_tools.demo.digits import load as load_digits
from host_tools.runners import libraries
from host_tools.runners.optee import bare_metal as optee
from host_tools.runners.optee.normal_world import tee_result
from host_tools.runners.replay import RunnerError
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tee_replayer.generator.generate import generate as generate_sources
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.status import statuses, value_of
from tests.support.optee_size import added_bytes
from trace_format.trace import Trace

KIB = 1024
MAX_ADDED_BYTES = 18 * KIB  # to OP-TEE's core
TRACE_START = 128  # of a signed trace: the head, which is what the signature covers


def test_the_same_bytes_as_the_bare_metal_firmware(signed: bytes, signer: FileSigner, pta: Path) -> None:
    for pixels in load_digits()[:2].inputs():
        inputs = {"data": pixels}
        expected = runners.run("qemu", Delivery(signed), signer.public, inputs)
        found = runners.run("optee", Delivery(signed), signer.public, inputs, firmware=pta)
        assert found.ok, found.error
        assert found.outputs["prob"].tobytes() == expected.outputs["prob"].tobytes()
        assert (found.jobs, found.actions, found.retries) == (expected.jobs, expected.actions, 0)


def test_inputs_left_out_and_replays_in_a_row(signed: bytes, signer: FileSigner, pta: Path) -> None:
    once = runners.run("optee", Delivery(signed), signer.public, firmware=pta)
    often = runners.run("optee", Delivery(signed), signer.public, firmware=pta, repeat=20)
    assert often.ok, often.error
    assert np.ptp(once.outputs["prob"]) > 0
    assert often.outputs["prob"].tobytes() == once.outputs["prob"].tobytes()


def test_a_job_that_faults_is_reset_and_retried(signed: bytes, signer: FileSigner, pta: Path) -> None:
    good = runners.run("optee", Delivery(signed), signer.public, firmware=pta)
    found = runners.run("optee", Delivery(signed), signer.public, firmware=pta, plugin_args={"fault": "3"})
    assert found.ok, found.error
    assert found.retries == 1
    assert found.outputs["prob"].tobytes() == good.outputs["prob"].tobytes()


def _flipped(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def _refused(kind: str, network: Trace, signed: bytes, signer: FileSigner) -> bytes:
    match kind:
        case "KEY":
            return sign_trace(network.build(), FileSigner(generate(Algorithm.ES256)))
        case "ROLLBACK":
            older = {**network.meta, "security_version": network.meta["security_version"] - 1}
            return sign_trace(network.with_(meta=older).build(), signer)
        case "SIGNATURE":
            return _flipped(signed, TRACE_START + 200)
        case "CHUNK":
            return _flipped(signed, len(signed) - 20)
        case _:
            return signed[: len(signed) // 2]


@pytest.mark.parametrize("status", ["KEY", "ROLLBACK", "SIGNATURE", "CHUNK", "SIZE"])
def test_refused_before_any_register_is_written(
    status: str, network: Trace, signed: bytes, signer: FileSigner, pta: Path, tmp_path: Path
) -> None:
    """`replay` compares the TEE_Result that the client got with the report's status."""
    stats = tmp_path / "stats.json"
    data = _refused(status, network, signed, signer)
    found = runners.run("optee", Delivery(data), signer.public, firmware=pta, plugin_args={"stats": str(stats)})
    assert not found.ok
    assert found.report.status == value_of(status)
    assert found.outputs == {}
    counts = json.loads(stats.read_text())
    assert counts["writes"] == 0
    assert counts["normal_accesses"] == 0


def test_each_status_has_its_own_tee_result() -> None:
    errors = [status.value for status in statuses().values() if status.name != "OK"]
    assert len({tee_result(value) for value in errors}) == len(errors) > 20
    assert all(0x80000000 <= tee_result(value) < 0x90000000 for value in errors)


def test_the_command(signed: bytes, signer: FileSigner, pta: Path, tmp_path: Path) -> None:
    (tmp_path / "net.sgtr").write_bytes(signed)
    (tmp_path / "pub.pem").write_bytes(signer.public.pem())
    line = f"replay {tmp_path}/net.sgtr --key {tmp_path}/pub.pem --firmware {pta} --json "
    line += f"--output prob={tmp_path}/out.npy --on optee"
    found = CliRunner().invoke(main, shlex.split(line), catch_exceptions=False)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["device"] == optee.DEVICE
    assert (
        np.load(tmp_path / "out.npy").tobytes()
        == runners.run("qemu", Delivery(signed), signer.public).outputs["prob"].tobytes()
    )


def test_a_folder_that_is_no_pseudo_ta(signed: bytes, signer: FileSigner, tmp_path: Path) -> None:
    (tmp_path / "net.sgtr").write_bytes(signed)
    (tmp_path / "pub.pem").write_bytes(signer.public.pem())
    line = f"replay {tmp_path}/net.sgtr --key {tmp_path}/pub.pem --on optee --firmware {tmp_path}"
    found = CliRunner().invoke(main, shlex.split(line), catch_exceptions=False)
    assert found.exit_code == 2
    assert found.stderr.startswith(f"error: {tmp_path}/sub.mk: No such file")


def test_a_trace_that_does_not_fit_the_staging_area(
    network: Trace, signer: FileSigner, pta: Path, tmp_path: Path
) -> None:
    """A carve-out of 2 MiB leaves 512 KiB."""
    small = generate_sources(
        Options(
            "v3d42",
            platform_of("optee"),
            signer.public,
            libraries.source(),
            any_client=True,
            carveout_bytes=2 << 20,
        ),
        tmp_path / "small",
    )
    larger = network.with_(notes={"filler": np.random.default_rng(1).bytes(600 * KIB).hex()})
    with pytest.raises(RunnerError, match="do not fit the pseudo-TA's staging area"):
        runners.run("optee", Delivery(sign_trace(larger.build(), signer)), signer.public, firmware=small)


@pytest.mark.parametrize("gpu", ["v3d42", "mali_g71"])
def test_size(gpu: str, pta: Path, signer: FileSigner, tmp_path: Path) -> None:
    """What the pseudo-TA adds to OP-TEE's core; `pta` is requested so that without OP-TEE the test is skipped."""
    folder = generate_sources(
        Options(gpu, platform_of("optee"), signer.public, libraries.source(), any_client=True), tmp_path / "pta"
    )
    assert added_bytes(folder) <= MAX_ADDED_BYTES
