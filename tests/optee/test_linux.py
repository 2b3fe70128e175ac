# SPDX-License-Identifier: BSD-2-Clause
"""Debian's Linux as the normal world of OP-TEE's machine: replays, clients that die, the hand-over of the GPU."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools import runners
from host_tools.cli import main
from host_tools.demo import PARAM, RAW, WEIGHTS
from host_tools.demo.digits import load as load_digits
from host_tools.demo.record import same_versions
from host_tools.machine.boot import RAM_END, GuestJob, qemu_version
from host_tools.machine.console import GuestResult
from host_tools.machine.root import RecordRoot
from host_tools.record.convert import convert
from host_tools.record.differences import relative_difference
from host_tools.record.ncnn.job import Float32, ncnn_job
from host_tools.record.shader_cache import with_shader_cache
from host_tools.record.tolerances import TOLERANCE
from host_tools.runners import libraries
from host_tools.runners.optee import build, client, images
from host_tools.runners.optee import linux as optee_linux
from host_tools.runners.optee import linux_machine as linux
from host_tools.runners.optee.normal_world import tee_result
from host_tools.support.tensors import npy
from host_tools.vgpu.build import qemu_plugin
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tee_replayer.generator import boards
from tee_replayer.generator.generate import generate as generate_sources
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.status import value_of
from tests.support import networks
from trace_format.trace import Trace

GPU = "b000000.gpu"  # its device in the guest: host_tools/machine/devicetree.py
KILLED, BUS_ERROR = 128 + 9, 128 + 7  # how a shell says so
RUN = "gramophone-tee replay /job/net.sgtr --via pta --json --input data=/job/data.npy"
# `held STEP` starts session.c, which goes as far as STEP and stays there; `killed` ends it and says how it ended.
SHELL = """
held() {
    session $1 /job/net.sgtr >/tmp/said 2>&1 &
    pid=$! tries=0
    until grep -q ready /tmp/said || [ $tries -ge 60000 ]; do usleep 1000; tries=$((tries + 1)); done
    cat /tmp/said
}
killed() { kill -9 $pid; wait $pid 2>/tmp/job; echo killed $1 $?; }
peek() { devmem $2 32 $3 >/tmp/word 2>&1; echo peek $1 $?; }
"""


@pytest.fixture(scope="module")
def digit() -> Float32:
    return next(iter(load_digits()[:1].inputs()))


@pytest.fixture(scope="module")
def session(root: RecordRoot, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """session.c for the guest."""
    program = tmp_path_factory.mktemp("session") / "session"
    teec = client.libteec()
    folders = [f"-I{folder}" for folder in (*client.INCLUDES, client.SOURCES)] + [f"-isystem{teec / 'include'}"]
    flags = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-Wconversion", *folders]
    source = Path(__file__).with_name("session.c")
    compiler = f"{build.CROSS}gcc"
    libraries = [str(client.library()), f"-L{teec / 'lib'}", "-lteec"]
    subprocess.run([compiler, *flags, "-o", str(program), str(source), *libraries], check=True)
    return program.read_bytes()


def with_programs(job: GuestJob, session: bytes, signed: bytes, digit: Float32) -> GuestJob:
    """The job with what the scripts here use."""
    files = {"usr/bin/session": session, "job/net.sgtr": signed, "job/data.npy": npy(digit)}
    return replace(
        job,
        command=SHELL + job.command,
        files={**job.files, **files},
        programs=job.programs | {"usr/bin/session"},
    )


def said(result: GuestResult, word: str) -> dict[str, int]:
    """What the script's lines `WORD NAME NUMBER` say."""
    rows = [line.split() for line in result.output.splitlines()]
    return {row[1]: int(row[2]) for row in rows if len(row) == 3 and row[0] == word}


def array(data: bytes) -> Float32:
    loaded: Float32 = np.load(io.BytesIO(data))
    return loaded


def test_the_command_gives_the_bytes_of_the_bare_metal_firmware(
    root: RecordRoot, signed: bytes, signer: FileSigner, pta: Path, digit: Float32, tmp_path: Path
) -> None:
    (tmp_path / "net.sgtr").write_bytes(signed)
    (tmp_path / "pub.pem").write_bytes(signer.public.pem())
    (tmp_path / "data.npy").write_bytes(npy(digit))
    line = f"replay {tmp_path}/net.sgtr --key {tmp_path}/pub.pem --firmware {pta} --json --repeat 3 "
    line += f"--input data={tmp_path}/data.npy --output prob={tmp_path}/out.npy --on optee --normal-world linux"
    found = CliRunner().invoke(main, shlex.split(line), catch_exceptions=False)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["device"] == optee_linux.DEVICE
    expected = runners.run("qemu", Delivery(signed), signer.public, {"data": digit})
    assert np.load(tmp_path / "out.npy").tobytes() == expected.outputs["prob"].tobytes()


@pytest.mark.exhaustive  # as in tests/optee/test_replay.py; below, a boot with Linux refuses another key's trace
def test_a_damaged_trace_is_refused(root: RecordRoot, signed: bytes, signer: FileSigner, pta: Path) -> None:
    """`replay` compares the TEEC_Result that gramophone-tee got with the report's status."""
    damaged = bytearray(signed)
    damaged[-20] ^= 1
    found = runners.run("optee-linux", Delivery(bytes(damaged)), signer.public, firmware=pta)
    assert not found.ok
    assert found.report.status == value_of("CHUNK")
    assert found.outputs == {}


@pytest.mark.exhaustive  # minutes: every byte is hashed by the emulated core, twice
def test_mobilenet_in_both_normal_worlds(
    root: RecordRoot, network: Trace, signer: FileSigner, pta: Path, shared_folder: Path
) -> None:
    trace = networks.built("mobilenet_v1", shared_folder)
    meta = {**trace.meta, "security_version": network.meta["security_version"]}
    signed = sign_trace(trace.with_(meta=meta).build(), signer)
    inputs = {"data": networks.picture("mobilenet_v1")}
    expected = runners.run("qemu", Delivery(signed), signer.public, inputs).outputs["prob"]
    for runner in ("optee", "optee-linux"):
        found = runners.run(runner, Delivery(signed), signer.public, inputs, firmware=pta)
        assert found.ok, found.error
        assert found.outputs["prob"].tobytes() == expected.tobytes()


@pytest.fixture(scope="module")
def deaths(
    root: RecordRoot, session: bytes, network: Trace, signed: bytes, signer: FileSigner, pta: Path, digit: Float32
) -> GuestResult:
    """Clients killed at each step, each followed by one that must find all in order; refusals, and one more."""
    other = sign_trace(network.build(), FileSigner(generate(Algorithm.ES256)))
    script = ""
    for step in ("open", "load", "run"):
        script += f"held {step}; usleep 20000; killed {step}\n"
        script += f"{RUN} --output prob=/out/{step}.npy >/out/{step}.json; echo status {step} $?\n"
    script += "held load; gramophone-tee info --via pta --json >/out/busy.json; echo status busy $?; killed busy\n"
    script += "gramophone-tee verify /job/other.sgtr --via pta --json >/out/other.json; echo status other $?\n"
    script += f"{RUN} --output prob=/out/last.npy >/out/last.json; echo status last $?\n"
    job = with_programs(GuestJob(script, {"job/other.sgtr": other}, uses_gpu=False), session, signed, digit)
    return linux.boot(images.image_of(pta, linux.NORMAL_WORLD), job)


def test_clients_that_die_leave_all_in_order(
    deaths: GuestResult, network: Trace, signed: bytes, signer: FileSigner, digit: Float32
) -> None:
    steps = ["open", "load", "run"]
    assert said(deaths, "killed") == dict.fromkeys([*steps, "busy"], KILLED), deaths.output
    expected = runners.run("qemu", Delivery(signed), signer.public, {"data": digit}).outputs["prob"]
    for step in [*steps, "last"]:
        assert said(deaths, "status")[step] == 0, deaths.output
        assert array(deaths.files[f"{step}.npy"]).tobytes() == expected.tobytes()
        assert json.loads(deaths.files[f"{step}.json"])["log"]["retries"] == 0
    replays = deaths.counters["jobs"] / network.jobs
    assert replays >= len(steps) + 1 + 1  # those of RUN, and at least one of "run" before it was killed
    assert deaths.counters["carveout_bytes_left"] == 0
    assert deaths.counters["normal_accesses"] == 0


def test_refusals_are_the_command_s_answer(deaths: GuestResult) -> None:
    busy, other = (json.loads(deaths.files[f"{name}.json"]) for name in ("busy", "other"))
    assert said(deaths, "status")["busy"] == 2
    assert busy["result"] == "0xffff000d"  # TEEC_ERROR_BUSY
    assert said(deaths, "status")["other"] == 1
    assert int(other["result"], 0) == tee_result(value_of("KEY"))
    assert other["log"]["status"] == value_of("KEY")


@dataclass(frozen=True)
class HandOver:
    """What came of the machine in which Linux has the GPU, then the secure world, then Linux again."""

    result: GuestResult
    capture: Trace

    def gpu(self, name: str) -> Float32:
        """The output that ncnn computed on the GPU."""
        return np.frombuffer(self.result.files[f"{name}/gpu/0"], np.float32)


# tests/optee/test_handover.py hands the GPU over without Linux.
also_without_linux = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def hand_over(
    root: RecordRoot,
    session: bytes,
    signed: bytes,
    signer: FileSigner,
    digit: Float32,
    tmp_path_factory: pytest.TempPathFactory,
) -> HandOver:
    """One boot: record ncnn on the GPU, hand that over, replay in the secure world, take it back, ncnn again."""
    folder = tmp_path_factory.mktemp("shared")
    pta = generate_sources(
        Options("v3d42", platform_of("optee"), signer.public, libraries.source(), any_client=True, share_gpu=True),
        folder / "pta",
    )
    param, weights, zeros = PARAM.read_bytes(), WEIGHTS.read_bytes(), {"data": np.zeros_like(digit)}
    warming = ncnn_job(param, bytes(len(weights)), zeros)  # that of recordings, so that its cache is there
    job = with_shader_cache(
        ncnn_job(param, weights, {"data": digit}), warming, root, qemu_plugin(), {"gpu": warming.gpu}
    )
    driver = "/sys/bus/platform/drivers/v3d"
    firewall = boards.load(boards.OPTEE).devices["firewall"].base
    gpu, carveout = f"{images.read_board(pta).gpu_base:#x}", f"{images.read_board(pta).carveout_base:#x}"
    script = f"""
ncnn() {{ {job.command} && mkdir /out/$1 && mv /out/gpu /out/report /out/$1 || exit; }}
ncnn before
echo {GPU} >{driver}/unbind || exit
peek before {gpu}
held run
peek during {gpu}
peek carveout {carveout}
peek firewall {firewall:#x} 0
peek still {gpu}
killed run
peek between {gpu}
{RUN} --output prob=/out/prob.npy >/out/replay.json; echo status replay $?
peek after {gpu}
echo {GPU} >{driver}/bind || exit
ncnn after
"""
    capture = folder / "capture"
    result = linux.boot(
        images.image_of(pta, linux.NORMAL_WORLD),
        with_programs(replace(job, command=script), session, signed, digit),
        plugin_args={"capture": str(capture)},
    )
    notes = {"packages": root.versions, "qemu": qemu_version()}
    return HandOver(result, convert(capture, ram_end=RAM_END, meta={"name": "lenet"}, notes=notes))


@also_without_linux
def test_the_gpu_computes_the_same_in_both_worlds(
    hand_over: HandOver, signed: bytes, signer: FileSigner, digit: Float32
) -> None:
    assert said(hand_over.result, "status") == {"replay": 0}, hand_over.result.output
    replayed = array(hand_over.result.files["prob.npy"])
    assert (
        replayed.tobytes()
        == runners.run("qemu", Delivery(signed), signer.public, {"data": digit}).outputs["prob"].tobytes()
    )
    assert hand_over.gpu("before").tobytes() == hand_over.gpu("after").tobytes()
    # The signed trace may be of other versions of the stack than the guest's.
    assert relative_difference(hand_over.gpu("before").reshape(replayed.shape), replayed) <= TOLERANCE


@also_without_linux
def test_the_normal_world_has_the_gpu_between_sessions_only(hand_over: HandOver) -> None:
    peeks = said(hand_over.result, "peek")
    assert peeks == {
        "before": 0,
        "during": BUS_ERROR,
        "carveout": BUS_ERROR,
        "firewall": BUS_ERROR,
        "still": BUS_ERROR,
        "between": 0,
        "after": 0,
    }, hand_over.result.output
    counters = hand_over.result.counters
    assert counters["refused_accesses"] == 3
    assert counters["refused_memory"] == 1
    assert counters["handovers"] == 2 * 2  # two sessions, there and back
    assert counters["carveout_bytes_left"] == 0


@also_without_linux
def test_the_recording_ends_with_the_hand_over(hand_over: HandOver) -> None:
    committed = Trace.read(RAW)
    assert hand_over.capture.jobs > 0
    if same_versions(hand_over.capture, committed):
        assert hand_over.capture.jobs == committed.jobs
