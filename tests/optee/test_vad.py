# SPDX-License-Identifier: BSD-2-Clause
"""docs/examples/vad.c: speech in a WAV file, found by Silero VAD in OP-TEE as by Silero's own package."""

from __future__ import annotations

import importlib.util
import io
import struct
import subprocess
import sys
import wave
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from host_tools.cli import main
from host_tools.machine.boot import GuestJob
from host_tools.machine.root import RecordRoot
from host_tools.runners.optee import client, images
from host_tools.runners.optee import linux_machine as linux
from host_tools.runners.optee.build import CROSS
from signing.key_files import private_pem
from tests.bench.trained import MODELS
from tests.optee.libteec import Fake
from tests.support.places import CHECKOUT
from tests.support.signing_samples import ES256

SOURCE = CHECKOUT / "docs/examples/vad.c"
OKAY_NABU = CHECKOUT / "tests/support/okay_nabu.wav"
RATE, CHUNK, CONTEXT = 16000, 512, 64
ZEROS = np.zeros((2, 1, 128), np.float32)
SILERO = MODELS["silero"]
DEVICE = """
gpu = "v3d42"
platform = "optee"
key = "pub.pem"
any_client = true
[features]
operators = ["copy"]
"""

Samples = NDArray[np.int16]


def compiled(folder: Path, cross: str, headers: list[Path], libraries: list[str]) -> Path:
    """The example, as docs/YOUR-MODEL.md compiles it, with warnings as errors."""
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", *(f"-I{path}" for path in headers)]
    program = folder / "vad"
    subprocess.run([f"{cross}gcc", *flags, "-o", str(program), str(SOURCE), *libraries], check=True)
    return program


def wav(samples: Samples, rate: int = RATE, channels: int = 1) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(channels)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(samples.tobytes())
    return file.getvalue()


def speech() -> Samples:
    """The words twice, and once more up to their middle."""
    with wave.open(str(OKAY_NABU), "rb") as file:
        words = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    return np.concatenate([words, words, words[: RATE + 100]])


def by_onnx_runtime(samples: Samples, remembers: bool) -> list[float]:
    """The probability of speech in each chunk."""
    session, state, context = onnxruntime.InferenceSession(SILERO.path), ZEROS, np.zeros(CONTEXT, np.float32)
    found = []
    for chunk in np.pad(samples, (0, -len(samples) % CHUNK)).astype(np.float32).reshape(-1, CHUNK) / 32768:
        heard = np.concatenate([context, chunk])
        probability, following = session.run(None, {"input": heard[None], "state": state, **SILERO.constants})
        state, context = following if remembers else state, heard[-CONTEXT:]
        found.append(float(probability.item()))
    return found


def segments(probabilities: list[float], count: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Silero's package makes of probabilities, as the example prints it."""
    monkeypatch.setitem(sys.modules, "torch", Mock())  # the module imports it, this function does not use it
    spec = importlib.util.spec_from_file_location("utils_vad", SILERO.package.folder() / "silero_vad/utils_vad.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = module.get_speech_timestamps_from_probs(probabilities, audio_length_samples=count)
    return [f"{row['start'] / RATE:.3f} {row['end'] / RATE:.3f}" for row in rows]


def made(folder: Path, key: bytes, public: bytes) -> None:
    """By the commands of docs/YOUR-MODEL.md: the signed trace, and the pseudo-TA's folder."""
    (folder / "key.pem").write_bytes(key)
    (folder / "pub.pem").write_bytes(public)
    (folder / "device.toml").write_text(DEVICE)
    np.save(folder / "rate.npy", SILERO.constants["sr"])
    np.save(folder / "zeros.npy", ZEROS)
    for line in (
        f"record onnx {SILERO.path} --shape input=1x576 --shape state=2x1x128 --constant sr=rate.npy -o raw.gtr",
        "build raw.gtr -o vad.gtr --state state=stateN --first state=zeros.npy",
        "sign vad.gtr --signing-key key.pem -o vad.sgtr",
        "generate device.toml -o pta",
    ):
        assert CliRunner().invoke(main, line.split(), catch_exceptions=False).exit_code == 0


@pytest.mark.exhaustive  # a recording of a minute, and a boot of Linux
def test_speech_is_found_as_silero_finds_it(
    root: RecordRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made(tmp_path, private_pem(ES256.key), ES256.public.pem())
    teec = [str(client.library()), f"-L{client.libteec() / 'lib'}", "-lteec"]
    program = compiled(tmp_path, CROSS, [tmp_path / "pta/client"], teec)
    samples = speech()
    files = {
        "usr/bin/vad": program.read_bytes(),
        "job/vad.sgtr": (tmp_path / "vad.sgtr").read_bytes(),
        "job/speech.wav": wav(samples),
        "job/silence.wav": wav(np.zeros(5 * CHUNK, np.int16)),
        "job/cut.wav": wav(samples[:CHUNK])[:-1],
    }
    script = "vad /job/vad.sgtr /job/speech.wav >/out/speech; echo speech $?\n"
    script += "for name in silence cut; do vad /job/vad.sgtr /job/$name.wav; echo $name $?; done\n"
    job = GuestJob(script, files, uses_gpu=False, programs=frozenset({"usr/bin/vad"}))
    found = linux.boot(images.image_of(tmp_path / "pta", linux.NORMAL_WORLD), job)
    cut = "error: /job/cut.wav: expected more data, found the end of the file"
    assert found.output.splitlines() == ["speech 0", "silence 1", cut, "cut 2"]
    expected = segments(by_onnx_runtime(samples, remembers=True), len(samples), monkeypatch)
    assert found.files["speech"].decode().splitlines() == expected
    assert len(expected) == 3
    assert expected != segments(by_onnx_runtime(samples, remembers=False), len(samples), monkeypatch)


@pytest.fixture(scope="module")
def here(built: Fake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example for this machine, over a libteec without a TEE."""
    library, folder = Path(built.built), tmp_path_factory.mktemp("vad")
    (folder / "libteec.so.2").symlink_to(library.parent.parent / "libteec.so")
    linked = [str(library.with_suffix(".a")), str(folder / "libteec.so.2"), f"-Wl,-rpath,{folder}"]
    return compiled(folder, "", [client.SOURCES, *client.INCLUDES], linked)


GOOD = wav(np.zeros(CHUNK, np.int16))
OTHER_CHUNK = b"LIST" + struct.pack("<I", 3) + b"odd\0"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "expected more data, found the end of the file"),
        (b"OggS" + GOOD[4:], "expected a WAV file, found none"),
        (GOOD[:30], "expected more data, found the end of the file"),
        (GOOD[:12] + GOOD[36:], "expected a chunk 'fmt ' before 'data', found none"),
        (GOOD[:36] + b"LIST" + bytes([255]) * 4 + GOOD[36:], "expected a chunk of less than 2 GiB, found more"),
        (wav(np.zeros(CHUNK, np.int16), 44100, 2), "16 bits, found format 1, 2 channels, 44100 Hz, 16 bits"),
        (GOOD[:12] + OTHER_CHUNK + GOOD[12:], "slots: expected 'input' of 2304 bytes, found none"),
    ],
    ids=["empty", "ogg", "cut", "no format", "huge chunk", "stereo", "another network"],
)
def test_what_is_wrong_is_said(content: bytes, said: str, here: Path, tmp_path: Path) -> None:
    (tmp_path / "speech.wav").write_bytes(content)
    (tmp_path / "vad.sgtr").write_bytes(b"S")  # as the libteec without a TEE accepts it
    words = [str(here), str(tmp_path / "vad.sgtr"), str(tmp_path / "speech.wav")]
    found = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (found.returncode, found.stdout) == (2, "")
    assert said in found.stderr
    assert found.stderr.startswith(f"error: {tmp_path}/")
