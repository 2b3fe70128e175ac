# SPDX-License-Identifier: BSD-2-Clause
"""GPUReplay's recordings from import to replay on all runners: firmware at EL3, and the core on this machine.

Most of it is about registers and memory, on a GPU that executes no shaders; two tests execute them.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.passes.pipeline import build
from host_tools.runners import WITHOUT_OPTEE, run
from host_tools.runners.replay import Tensor
from host_tools.vgpu.build import QEMU
from signing.delivery import Delivery
from signing.key_files import private_pem
from signing.sign import sign_trace
from signing.verify import verify_trace
from tests.support.bare_metal import COMPILER, require
from tests.support.described_networks import HELD_OUT, check_digits, check_held_out
from tests.support.sampling import SomeOf
from tests.support.signing_samples import ES256
from trace_format.schema import SlotKind
from trace_format.trace import Trace

JOBS = {"mnist": 23, "alexnet": 60, "mobilenet": 104}
ONCE = {"mnist": 5, "alexnet": 15, "mobilenet": 50}  # of these, jobs that run in the prologue
SIGNER = ES256  # firmware for it is kept
NO_SHADERS = "mali_g71-noshaders"
PACKAGES = {COMPILER: "gcc-aarch64-linux-gnu", QEMU: "qemu-system-arm"}
NEEDS = {"unicorn": (COMPILER,), "qemu": (COMPILER, QEMU)}


@functools.cache
def signed(folder: Path) -> tuple[Trace, bytes]:
    """A recording, built and signed."""
    raw = import_gpureplay(folder, folder.name)
    trace = build(raw, source=raw.build())
    return trace, sign_trace(trace.build(), SIGNER)


def needs(runner: str) -> None:
    for program in NEEDS.get(runner, ()):
        require(program, PACKAGES[program])


def values(trace: Trace, seed: int) -> dict[str, Tensor]:
    """A random input; parameters of zeros, which take as long to copy as others."""
    generator = np.random.default_rng(seed)
    return {
        slot.name: generator.random(slot.shape, np.float32)
        if slot.kind == SlotKind.INPUT
        else np.zeros(slot.shape, np.float32)
        for slot in trace.slots
        if slot.kind != SlotKind.OUTPUT
    }


# MobileNet takes ten seconds to build; AlexNet's 250 MB take long, and long to hash in an emulator.
OTHERS = pytest.mark.exhaustive
NAMES = [pytest.param(name, marks=() if name == "mnist" else OTHERS) for name in JOBS]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("runner", WITHOUT_OPTEE)
def test_every_runner_replays_every_recording(recordings: Path, name: str, runner: str) -> None:
    needs(runner)
    trace, data = signed(recordings / name)
    for seed, repeat in ((1, 1), (2, 2)):
        result = run(runner, Delivery(data), SIGNER.public, values(trace, seed), gpu=NO_SHADERS, repeat=repeat)
        assert result.ok, result.error
        jobs = JOBS[name] - (ONCE[name] if repeat > 1 else 0)  # of the last replay
        assert (result.jobs, result.retries, result.compute) == (jobs, 0, "none")
        assert list(result.outputs) == ["output"]
        assert result.secure_bytes > trace.carveout_bytes


# Held-out digits are classified by each, below.
@OTHERS
@pytest.mark.parametrize("runner", WITHOUT_OPTEE)
def test_every_runner_classifies_as_numpy_does(recordings: Path, mnist_weights: bytes, runner: str) -> None:
    needs(runner)
    check_digits(recordings, mnist_weights, runner, SIGNER)


@pytest.mark.parametrize("runner", WITHOUT_OPTEE)
def test_held_out_digits(recordings: Path, mnist_weights: bytes, runner: str, some_of: SomeOf) -> None:
    needs(runner)
    check_held_out(recordings, mnist_weights, runner, SIGNER, some_of(range(HELD_OUT), 4))


@pytest.mark.parametrize("name", NAMES)
def test_parameters_must_be_given(recordings: Path, name: str) -> None:
    trace, data = signed(recordings / name)
    first = next(i for i, slot in enumerate(trace.slots) if slot.kind == SlotKind.PARAMETER)
    given = values(trace, 1)
    del given[trace.slots[first].name]
    result = run("vgpu", Delivery(data), SIGNER.public, given, gpu=NO_SHADERS)
    assert (result.report.name, result.report.offset, result.actions) == ("UNBOUND", first, 0)


# What runners do with a request is the same for each, above.
@pytest.mark.parametrize(
    "runner", [pytest.param(name, marks=() if name == "vgpu" else OTHERS) for name in WITHOUT_OPTEE]
)
def test_the_commands_in_a_row(
    recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: str
) -> None:
    """As a user types them. Weights of zero make all classes equal; without shaders, replay says so."""
    needs(runner)
    monkeypatch.chdir(tmp_path)
    Path("key.pem").write_bytes(private_pem(SIGNER.key))
    Path("pub.pem").write_bytes(SIGNER.public.pem())

    def command(*words: str | Path) -> str:
        result = CliRunner().invoke(main, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        return result.stdout

    command("import", "gpureplay", recordings / "mnist", "-o", "raw.gtr")
    command("build", "raw.gtr", "-o", "net.gtr")
    command("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr")
    command("verify", "trace", "net.sgtr", "--key", "pub.pem")
    trace = Trace.read(Path("net.gtr"))
    options: list[str] = ["--key", "pub.pem", "--on", runner, "--output", "output=output.npy"]
    for name, array in values(trace, 3).items():
        np.save(f"{name}.npy", array)
        option = "--param" if trace.slot(name).kind is SlotKind.PARAMETER else "--input"
        options += [option, f"{name}={name}.npy"]
    found = json.loads(command("replay", "net.sgtr", *options, "--json"))
    assert (found["compute"], found["jobs"], found["warnings"]) == ("full", JOBS["mnist"], [])
    output = np.load("output.npy")
    assert output.shape == trace.slot("output").shape
    assert np.allclose(output[:10], 0.1)
    found = json.loads(command("replay", "net.sgtr", *options, "--gpu", NO_SHADERS, "--json"))
    assert (found["compute"], found["jobs"]) == ("none", JOBS["mnist"])
    assert [warning.partition(";")[0] for warning in found["warnings"]] == ["this virtual GPU runs no shaders"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("runner", WITHOUT_OPTEE)
def test_a_flipped_bit_is_found_where_it_is(recordings: Path, runner: str, name: str) -> None:
    """Also on the device that is made for a trace that cannot be parsed: of its GPU, with memory enough."""
    needs(runner)
    _, data = signed(recordings / name)
    damaged = bytearray(data)
    damaged[-9] ^= 1
    found = run(runner, Delivery(bytes(damaged)), SIGNER.public)
    assert not found.ok
    assert found.report.name == "CHUNK"
    assert f"chunk {found.report.offset}" in verify_trace(bytes(damaged), [SIGNER.public]).reason
