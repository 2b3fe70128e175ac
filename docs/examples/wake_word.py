# SPDX-License-Identifier: BSD-2-Clause
"""Listen for a wake word in a WAV file, with a network of microWakeWord in the secure world.

    python -m docs.examples.wake_word okay_nabu.sgtr --key pub.pem --model okay_nabu.tflite --wav speech.wav

The trace is a recording of the same .tflite file (`gramophone record tflite`). The network hears 30 ms a replay.
Its memory is state, which stays in the device: the caller gives frames and gets probabilities. Needs
`pip install pymicro-features 'gramophone[tflite]'`; the WAV file has 16 kHz, 16 bits, one channel.
"""

from __future__ import annotations

import argparse
import sys
import wave
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import NDArray

from host_tools import runners
from host_tools.support.tensors import slot_of
from signing.delivery import Delivery
from signing.key_files import load_public_key
from signing.keys import PublicKey
from trace_format.errors import GramophoneError
from trace_format.files import read_file
from trace_format.schema import SlotKind

RATE, CHUNK = 16000, 320  # samples a second; bytes of 10 ms
CUTOFF, WINDOW = 0.85, 5  # as the network's .json file says: the mean of WINDOW probabilities
AUDIO, OUTPUT = "input_audio", "dense_1"


def features(wav: Path) -> NDArray[np.float32]:
    """The spectrum of each 10 ms, (n, 40).

    Raises:
        GramophoneError: it is another kind of WAV file.
    """
    with wave.open(str(wav), "rb") as file:
        found = file.getframerate(), file.getsampwidth(), file.getnchannels()
        if found != (RATE, 2, 1):
            raise GramophoneError(f"{wav}: sound: expected 16000 Hz, 2 bytes, 1 channel, found {found}")
        sound = file.readframes(file.getnframes())
    from pymicro_features import MicroFrontend  # the user installs it: nothing else here needs it

    frontend, rows = MicroFrontend(), []
    for at in range(0, len(sound) - CHUNK + 1, CHUNK):
        if row := frontend.process_samples(sound[at : at + CHUNK]).features:
            rows.append(row)
    return np.array(rows, np.float32)


def frames(rows: NDArray[np.float32], model: Path, stride: int) -> NDArray[np.int8]:
    """Spectra as the network takes them: (replays, 1, stride, 40), quantised as its file says."""
    scale, zero = Interpreter(str(model)).get_input_details()[0]["quantization"]
    count = len(rows) // stride
    steps = np.round(rows[: count * stride] / scale + zero).clip(-128, 127)
    found: NDArray[np.int8] = steps.reshape(count, 1, stride, -1).astype(np.int8)
    return found


def listen(trace: Path, key: PublicKey, model: Path, wav: Path, on: str) -> NDArray[np.float64]:
    """The probability of the wake word after each replay; all replays are one session, which keeps the state.

    Raises:
        GramophoneError: the trace is of another network, or is refused.
    """
    signed = Delivery(read_file(trace))
    slot = slot_of(signed.parse(), AUDIO, SlotKind.INPUT)
    given = frames(features(wav), model, slot.shape[1])
    how = {"repeat": len(given), "series": {AUDIO: given}, "each": frozenset([OUTPUT])}
    result = runners.run(on, signed, key, {}, **how)
    if not result.ok:
        raise GramophoneError(f"{trace}: refused: {result.error}")
    return result.outputs[OUTPUT].reshape(-1) / 256


def heard(probabilities: NDArray[np.float64]) -> list[int]:
    """Replays after which the wake word has been heard: the mean of the last ones is above the cut-off."""
    sums = np.convolve(probabilities, np.ones(WINDOW) / WINDOW, "valid")
    return [int(at) + WINDOW - 1 for at in np.flatnonzero(sums > CUTOFF)]


def main(words: list[str] | None = None) -> int:
    """Exit status 0: heard; 1: not heard; 2: an error."""
    parser = argparse.ArgumentParser(description="Listen for a wake word in a WAV file.")
    parser.add_argument("trace", type=Path)
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--wav", type=Path, required=True)
    parser.add_argument("--on", default="vgpu")
    given = parser.parse_args(words)
    try:
        key = load_public_key(read_file(given.key), file=str(given.key))
        probabilities = listen(given.trace, key, given.model, given.wav, given.on)
    except (GramophoneError, OSError, wave.Error) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    times = heard(probabilities)
    print(f"{len(probabilities)} replays, highest probability {probabilities.max(initial=0):.2f}")
    print(f"heard at {times[0] * 0.03:.2f} s" if times else "not heard")
    return 0 if times else 1


if __name__ == "__main__":
    sys.exit(main())
