# SPDX-License-Identifier: BSD-2-Clause
"""docs/examples/wake_word.py: a wake word in a WAV file, as LiteRT hears it.

tests/support/okay_nabu.wav is espeak-ng's voice en-us+m3 ("Okay Nabu", -s 140), at 16 kHz with silence around it.
"""

from __future__ import annotations

import platform
import wave
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from docs.examples import wake_word
from host_tools.machine.root import RecordRoot
from tests.bench.trained import Package
from tests.support.places import CHECKOUT
from tests.support.signing_commands import record_tflite
from tests.support.signing_samples import ES256

WAV = CHECKOUT / "tests/support/okay_nabu.wav"
NETWORKS = Package("pymicro-wakeword==2.5.0", "3869f536402b1254e3be3549d3a462ecd6ed21ce2c3e77ec8eb501c3c700417c")
FEATURES = Package("pymicro-features==2.0.2", "65a76a7c7851ee0dd6083dda56b835ab9dc6eddeaf11b34461795758de846d0f")


def by_litert(model: Path, frames: np.ndarray) -> list[int]:
    """What the network says after each frame; the interpreter keeps its variables."""
    interpreter = Interpreter(str(model))
    interpreter.allocate_tensors()
    given, taken = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    found = []
    for frame in frames:
        interpreter.set_tensor(given["index"], frame)
        interpreter.invoke()
        found.append(int(interpreter.get_tensor(taken["index"]).item()))
    return found


@pytest.mark.exhaustive  # a recording of a minute, and a replay for each 30 ms
def test_a_wake_word_is_heard(
    root: RecordRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the SHA-256 of pymicro-features is that of its wheel for x86_64")
    monkeypatch.syspath_prepend(str(FEATURES.folder()))
    monkeypatch.chdir(tmp_path)
    model = NETWORKS.folder() / "pymicro_wakeword/models/okay_nabu.tflite"
    record_tflite(model)
    words = ["net.sgtr", "--key", "pub.pem", "--model", str(model), "--wav", str(WAV)]
    assert wake_word.main(words) == 0
    assert "heard at " in capsys.readouterr().out
    probabilities = wake_word.listen(Path("net.sgtr"), ES256.public, model, WAV, "vgpu")
    expected = by_litert(model, wake_word.frames(wake_word.features(WAV), model, 3))
    assert max(expected) > 200
    assert np.abs(probabilities * 256 - expected).max() <= 1


def test_it_is_heard_where_the_mean_is_above_the_cut_off() -> None:
    assert wake_word.heard(np.array([0.0] * 9 + [1.0] * 5 + [0.0])) == [13]
    assert wake_word.heard(np.array([0.0] * 9 + [1.0] * 4 + [0.0] * 9)) == []


def test_another_kind_of_sound_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with wave.open(str(tmp_path / "x.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(44100)
    with pytest.raises(Exception, match="expected 16000 Hz, 2 bytes, 1 channel, found") as error:
        wake_word.features(tmp_path / "x.wav")
    assert str(tmp_path) in str(error.value)
