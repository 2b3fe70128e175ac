# SPDX-License-Identifier: BSD-2-Clause
"""The main job on the committed LeNet recording: build, sign, replay on all runners, real firmware at EL3."""

from __future__ import annotations

import json
import lzma
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools import runners
from host_tools.cli import main
from host_tools.demo import PARAM, RAW, WEIGHTS
from host_tools.demo.digits import Digits
from host_tools.demo.digits import load as load_digits
from host_tools.demo.ncnn_model import classify
from host_tools.passes.pipeline import KEEP_INPUTS, build
from host_tools.record.differences import relative_difference
from host_tools.record.tolerances import TOLERANCE
from host_tools.runners import firmware, libraries
from signing.delivery import Delivery
from signing.key_files import private_pem
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tee_replayer.generator.generate import generate as generate_sources
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support.sampling import SomeOf
from tests.support.signing_samples import ES256
from trace_format.actions import Op
from trace_format.trace import Trace

KIB = 1024


@pytest.fixture(scope="module")
def signer() -> FileSigner:
    return ES256  # firmware for it is kept


@pytest.fixture(scope="module")
def signed(signer: FileSigner) -> bytes:
    data = RAW.read_bytes()
    return sign_trace(build(Trace.parse(data), source=data, skip=KEEP_INPUTS).build(), signer)


@pytest.fixture(scope="module")
def folder(signer: FileSigner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("firmware") / "out"
    generate_sources(Options("v3d42", platform_of("qemu-virt"), signer.public, libraries.source()), out)
    firmware.compile_firmware(out)
    return out


@pytest.fixture(scope="module")
def digits() -> Digits:
    return load_digits()[:20]


def test_all_runners_give_the_same_bytes(
    signed: bytes, signer: FileSigner, folder: Path, digits: Digits, some_of: SomeOf
) -> None:
    for index in some_of(range(3), 1):
        given: tuple[Any, ...] = (Delivery(signed), signer.public, {"data": digits.inputs()[index]})
        found = {
            "vgpu": runners.run("vgpu", *given),
            "unicorn": runners.run("unicorn", *given, firmware=folder),
            "qemu": runners.run("qemu", *given, firmware=folder),
        }
        assert all(result.ok for result in found.values()), {k: r.error for k, r in found.items()}
        assert len({result.outputs["prob"].tobytes() for result in found.values()}) == 1
        assert len({(result.jobs, result.actions, result.retries) for result in found.values()}) == 1


def test_digits_that_were_not_recorded_as_ncnn_classifies_them(
    signed: bytes, signer: FileSigner, digits: Digits
) -> None:
    """Real digits; the recording was made with noise."""
    found = np.stack(
        [
            runners.run("vgpu", Delivery(signed), signer.public, {"data": pixels}).outputs["prob"]
            for pixels in digits.inputs()
        ]
    )
    reference = classify(PARAM, WEIGHTS, digits.inputs())
    assert relative_difference(found, reference) <= TOLERANCE
    assert (found.argmax(axis=1) == digits.labels).mean() >= 0.98


def test_100_replays_in_a_row_in_the_secure_world(
    signed: bytes, signer: FileSigner, folder: Path, digits: Digits
) -> None:
    once = runners.run("qemu", Delivery(signed), signer.public, {"data": digits.inputs()[0]}, firmware=folder)
    often = runners.run(
        "qemu",
        Delivery(signed),
        signer.public,
        {"data": digits.inputs()[0]},
        firmware=folder,
        repeat=100,
    )
    assert often.ok, often.error
    assert often.retries == 0
    assert often.outputs["prob"].tobytes() == once.outputs["prob"].tobytes()


def test_inputs_left_out_are_those_of_the_recording(signed: bytes, signer: FileSigner) -> None:
    first = runners.run("vgpu", Delivery(signed), signer.public)
    slot = Trace.parse(RAW.read_bytes()).slot("data")
    noise = np.random.default_rng(1).random(slot.shape, dtype=np.float32)  # seed of the first recorded input
    assert (
        first.outputs["prob"].tobytes()
        == runners.run("vgpu", Delivery(signed), signer.public, {"data": noise}).outputs["prob"].tobytes()
    )


def test_a_hung_job_is_reset_and_retried(signer: FileSigner, folder: Path, digits: Digits) -> None:
    trace = build(Trace.read(RAW))
    actions = trace.actions.copy()
    actions["value"][actions["op"] == Op.WAIT_IRQ] = 50_000  # of 5,000,000 us, which an emulator counts out
    signed = sign_trace(trace.with_(actions=actions).build(), signer)
    pixels = {"data": digits.inputs()[0]}
    good = runners.run("qemu", Delivery(signed), signer.public, pixels, firmware=folder)
    for trouble in ("hang", "fault"):
        result = runners.run(
            "qemu",
            Delivery(signed),
            signer.public,
            pixels,
            firmware=folder,
            plugin_args={trouble: "3"},
        )
        assert result.ok, result.error
        assert result.retries == 1
        assert result.outputs["prob"].tobytes() == good.outputs["prob"].tobytes()


def test_flipped_bits_are_refused_before_any_register_is_written(
    signed: bytes, signer: FileSigner, folder: Path, tmp_path: Path, some_of: SomeOf
) -> None:
    """Sampled over the whole file on the host core; some of them in the real firmware."""
    generator = random.Random(5)
    places = [generator.randrange(len(signed) * 8) for _ in range(300)]
    for place in some_of(places, 30):
        result = runners.run("vgpu", Delivery(_flipped(signed, place)), signer.public)
        assert not result.ok
        assert result.report.actions == 0, place
    stats = tmp_path / "stats.json"
    for place in some_of(places[:12], 2):
        result = runners.run(
            "qemu",
            Delivery(_flipped(signed, place)),
            signer.public,
            firmware=folder,
            plugin_args={"stats": str(stats)},
        )
        assert not result.ok
        assert json.loads(stats.read_text())["writes"] == 0, place


def _flipped(data: bytes, place: int) -> bytes:
    changed = bytearray(data)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def test_a_trace_of_another_signer_is_refused(
    signed: bytes, folder: Path, signer: FileSigner, tmp_path: Path
) -> None:
    stranger = FileSigner(generate(Algorithm.ES256))
    other = sign_trace(build(Trace.read(RAW)).build(), stranger)
    stats = tmp_path / "stats.json"
    result = runners.run(
        "qemu", Delivery(other), signer.public, firmware=folder, plugin_args={"stats": str(stats)}
    )
    assert not result.ok
    assert json.loads(stats.read_text())["writes"] == 0


def test_sizes(signed: bytes, folder: Path) -> None:
    """Firmware: 20 KiB in all, 9.75 KiB of code ours. Trace: at most 1.1 times xz -9e of the recording."""
    size = firmware.sizes(folder)
    assert size["our own code"] <= 9.75 * KIB
    assert size["in all, code and constants"] <= 20 * KIB
    packed = lzma.compress(RAW.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
    assert len(signed) <= 1.1 * len(packed)


def test_the_commands_in_a_row(tmp_path: Path, signer: FileSigner, digits: Digits) -> None:
    """build, sign, verify, replay --json as a user types them; the object has exactly the documented keys."""
    (tmp_path / "key.pem").write_bytes(private_pem(signer.key))
    (tmp_path / "pub.pem").write_bytes(signer.public.pem())
    np.save(tmp_path / "digit.npy", digits.inputs()[7])
    run_ = _Commands(tmp_path)
    run_("build", RAW, "-o", "net.gtr")
    run_("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr")
    run_("verify", "net.sgtr", "--key", "pub.pem")
    text = run_(
        *("replay", "net.sgtr", "--key", "pub.pem", "--on", "qemu", "--json"),
        *("--input", "data=digit.npy", "--output", "prob=prob.npy"),
    )
    found = json.loads(text)
    assert set(found) == {
        *(
            "ok",
            "warnings",
            "device",
            "compute",
            "jobs",
            "actions",
            "retries",
            "outputs",
            "expected",
            "instructions",
        ),
        *("trace_bytes", "secure_bytes", "log_bytes", "attestation_bytes"),
    }
    assert found["compute"] == "full"
    assert found["outputs"]["prob"]["shape"] == [10]
    assert found["outputs"]["prob"]["dtype"] == "float32"
    assert set(found["instructions"]) == {"verify", "load", "replay"}
    assert all(count > 0 for count in found["instructions"].values())
    assert found["trace_bytes"] == (tmp_path / "net.sgtr").stat().st_size
    assert np.load(tmp_path / "prob.npy").argmax() == digits.labels[7]


class _Commands:
    """Runs gramophone in a folder; relative names of files are in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *words: object) -> str:
        arguments = [self._path(str(word)) for word in words]
        result = CliRunner().invoke(main, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    def _path(self, word: str) -> str:
        if re.fullmatch(r"\w+\.(gtr|sgtr|pem|npy)", word):
            return str(self.folder / word)
        slot, equals, name = word.partition("=")
        return f"{slot}={self.folder / name}" if equals else word
