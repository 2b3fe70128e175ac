# SPDX-License-Identifier: BSD-2-Clause
"""Bad input that only the recording machine, the crypto library's source or a replayer can recognise."""

from __future__ import annotations

import errno
import json
import os
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from host_tools.demo import PARAM, RAW, WEIGHTS
from host_tools.machine.boot import QEMU
from host_tools.passes.pipeline import KEEP_INPUTS, build
from host_tools.runners import WITHOUT_OPTEE, firmware
from signing.key_files import private_pem
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.support import device_files
from tests.support.bare_metal import COMPILER, require
from tests.support.signing_samples import ES256
from trace_format.actions import Op
from trace_format.trace import Trace

TRACE_START = 128  # of a signed trace: the head, which is what the signature covers


@pytest.fixture(scope="module")
def signer() -> FileSigner:
    return ES256  # firmware for it is kept


@pytest.fixture(scope="module")
def compiled(signer: FileSigner) -> firmware.Firmware:
    require(QEMU, "qemu-system-arm")
    require(COMPILER, "gcc-aarch64-linux-gnu")
    return firmware.build(signer.public)


@pytest.fixture(scope="module")
def signed(signer: FileSigner) -> bytes:
    return sign_trace(build(Trace.read(RAW), skip=KEEP_INPUTS).build(), signer)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signer: FileSigner, signed: bytes) -> None:
    """A working folder with good files."""
    monkeypatch.chdir(tmp_path)
    Path("net.sgtr").write_bytes(signed)
    Path("pub.pem").write_bytes(signer.public.pem())
    Path("net.param").write_bytes(PARAM.read_bytes())
    Path("net.bin").write_bytes(WEIGHTS.read_bytes())


def run(line: str) -> Result:
    return CliRunner().invoke(main, shlex.split(line), catch_exceptions=False)


def refused(line: str) -> str:
    """The one sentence of a command that fails and leaves nothing."""
    before = sorted(Path().rglob("*"))
    result = run(line)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    assert sorted(Path().rglob("*")) == before
    return result.stderr.removeprefix("error: ").strip()


NETWORKS: dict[str, tuple[str, Callable[[bytes], bytes], str, str]] = {
    "truncated weights": (
        "net.bin",
        lambda data: data[:100],
        "data=1x28x28",
        "layer conv1 (Convolution): the .bin",
    ),
    "truncated network": (
        "net.param",
        lambda data: b"".join(data.splitlines(True)[:2]),
        "data=1x28x28",
        "the .param file is cut short",
    ),
    "another input": (
        "net.param",
        lambda data: data,
        "image=1x28x28",
        "no input blob 'image'; the network has data",
    ),
}


@pytest.mark.parametrize("what", NETWORKS)
def test_a_network_that_ncnn_does_not_take(what: str) -> None:
    """Before anything is booted."""
    name, damage, shape, reason = NETWORKS[what]
    Path(name).write_bytes(damage(Path(name).read_bytes()))
    sentence = refused(f"record ncnn net.param net.bin --shape {shape} -o out")
    assert sentence.startswith(f"net.param, net.bin: {reason}"), sentence


def test_a_recording_that_the_virtual_gpu_contradicts() -> None:
    raw = Trace.read(RAW)
    actions = raw.actions.copy()
    actions["value"][(actions["op"] == Op.REG_READ_ONCE) & (actions["a"] != 0)] ^= 1
    Path("net.gtr").write_bytes(raw.with_(actions=actions).build(compress=False))
    sentence = refused("build net.gtr -o out")
    assert sentence.startswith("net.gtr: action "), sentence
    assert ": expected 0x" in sentence


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("pub.pem", "pub.pem: the output is one of the files that are read"),
        (".", "device.toml: expected a file outside the output ., which is replaced"),
        ("pub.pem/out", "pub.pem"),
        ("/proc/out", "/proc/"),
    ],
)
def test_a_replayer_that_cannot_be_written(output: str, reason: str) -> None:
    device_files.written(Path())
    assert refused(f"generate device.toml -o {output}").startswith(reason)


@pytest.mark.parametrize("runner", ["unicorn", "qemu"])
@pytest.mark.parametrize("kept", [0, 20, 100, 2000, 20000, -2000])
def test_a_truncated_firmware(compiled: firmware.Firmware, runner: str, kept: int) -> None:
    Path("fw").mkdir()
    Path("fw/firmware.elf").write_bytes((compiled.folder / "firmware.elf").read_bytes()[:kept])
    Path("fw/firmware.bin").write_bytes((compiled.folder / "firmware.bin").read_bytes())
    sentence = refused(f"replay net.sgtr --key pub.pem --on {runner} --firmware fw")
    assert sentence.startswith("fw/firmware.elf: not a"), sentence


def test_a_firmware_without_its_image(compiled: firmware.Firmware) -> None:
    Path("fw").mkdir()
    Path("fw/firmware.elf").write_bytes((compiled.folder / "firmware.elf").read_bytes())
    sentence = refused("replay net.sgtr --key pub.pem --on qemu --firmware fw")
    assert sentence == "fw/firmware.bin is missing: 'make -C fw' makes it"


@pytest.mark.parametrize("runner", WITHOUT_OPTEE)
@pytest.mark.parametrize("what", ["another signer", "a damaged head", "a damaged body"])
def test_a_well_formed_trace_is_refused_with_status_1(compiled: object, runner: str, what: str) -> None:
    """The answer is no, on standard output; nothing is written."""
    data = bytearray(Path("net.sgtr").read_bytes())
    if what == "another signer":
        data = bytearray(sign_trace(build(Trace.read(RAW)).build(), FileSigner(generate(Algorithm.ES256))))
    else:
        data[TRACE_START + 200 if what == "a damaged head" else -20] ^= 1
    Path("net.sgtr").write_bytes(data)
    line = f"replay net.sgtr --key pub.pem --output prob=out.npy --on {runner}"
    result = run(line)
    assert result.exit_code == 1, result.output
    assert result.stderr == ""
    assert result.stdout.startswith("refused on ")
    assert result.stdout.count("\n") == 1
    found = json.loads(run(line + " --json").stdout)
    assert found["ok"] is False
    assert found["error"] in result.stdout
    assert found["outputs"] == {}
    assert not Path("out.npy").exists()


def test_a_temporary_folder_without_room(compiled: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one of 60 KiB a signal ended the command when it wrote the trace."""

    def small(_: int, at: int, size: int) -> None:
        if size > 60 << 10:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", small)
    sentence = refused("replay net.sgtr --key pub.pem --on qemu")
    assert "of the machine's memory, found: No space left on device" in sentence


def test_no_temporary_files_of_commands_that_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    Path("key.pem").write_bytes(private_pem(generate(Algorithm.ES256)))
    assert run("replay net.sgtr --key key.pem --on qemu").exit_code == 2
    Path("net.sgtr").write_bytes(b"")
    assert run("replay net.sgtr --key pub.pem --on qemu").exit_code == 2
    assert list(temporary.iterdir()) == []
