# SPDX-License-Identifier: BSD-2-Clause
"""The language model: its gradients, its tokens, its ONNX file against NumPy, and what the demo is asked for."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs.examples.text import book, decoder, demo, export
from trace_format.errors import GramophoneError

SMALL = decoder.Size(tokens=23, positions=9, layers=2, heads=2, width=8)
TEXT = "'Well!' thought Alice to herself, 'after such a fall as this'\nshe shall think nothing of tumbling."
VOCABULARY = book.vocabulary(TEXT, 40)


def small(seed: int) -> decoder.Parameters:
    """Parameters that are not all of one size."""
    random = np.random.default_rng(seed)
    found = decoder.initial(SMALL, random)
    return {name: value + random.normal(0, 0.1, value.shape).astype(np.float32) for name, value in found.items()}


@pytest.mark.parametrize("name", decoder.initial(SMALL, np.random.default_rng(0)))
def test_gradients(name: str) -> None:
    """Each parameter's, at one element, against the quotient of differences."""
    parameters = {key: value.astype(np.float64) for key, value in small(1).items()}
    text = np.random.default_rng(2).integers(0, SMALL.tokens, (3, 8))
    given, targets = text[:, :-1], text[:, 1:]
    logits, kept = decoder.forward(parameters, SMALL, given)
    gradient = decoder.backward(parameters, SMALL, given, kept, decoder.loss(logits, targets)[1])[name]
    at = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)
    losses = []
    for step in (1e-5, -2e-5):
        parameters[name][at] += step
        losses.append(decoder.loss(decoder.forward(parameters, SMALL, given)[0], targets)[0])
    assert (losses[0] - losses[1]) / 2e-5 == pytest.approx(gradient[at], rel=1e-4)


@settings(deadline=None)
@given(st.text(sorted(set(TEXT))))
def test_tokens_and_back(text: str) -> None:
    assert "".join(VOCABULARY[number] for number in book.encode(text, VOCABULARY)) == text


def test_tokens_are_what_is_frequent() -> None:
    assert len(VOCABULARY) == len(set(VOCABULARY)) == 40
    numbers = book.encode(TEXT, VOCABULARY)
    assert len(numbers) < len(TEXT)
    with pytest.raises(book.BookError, match="no token has the character '7'"):
        book.encode("7", VOCABULARY)


def rounded(parameters: decoder.Parameters) -> decoder.Parameters:
    """Parameters as the ONNX file has them: gains in the weights after them, and 8 bits with a scale an output."""
    found = dict(parameters)
    for layer in range(SMALL.layers):
        for gain, names in (("attention gain", ("query", "key", "value")), ("dense gain", ("up",))):
            for name in names:
                found[f"{layer}.{name}"] = parameters[f"{layer}.{gain}"][:, None] * parameters[f"{layer}.{name}"]
            found[f"{layer}.{gain}"] = np.ones(SMALL.width, np.float32)
    for name, value in found.items():
        if value.ndim == 2:
            scale = np.abs(value).max(1 if name in ("tokens", "positions") else 0, keepdims=True) / 127
            found[name] = (np.rint(value / scale) * scale).astype(np.float32)
    return found


def runs(
    parameters: decoder.Parameters, given: list[int], temperature: float, seed: int
) -> tuple[list[int], list[decoder.Array]]:
    """Chosen tokens, and logits, of runs of the ONNX file that hand their state on."""
    file = export.model(parameters, SMALL, [chr(97 + at) for at in range(SMALL.tokens)])
    session = onnxruntime.InferenceSession(file.SerializeToString())
    cache = np.zeros((SMALL.layers, SMALL.heads, SMALL.positions, SMALL.width // SMALL.heads), np.float32)
    state: dict[str, decoder.Array] = {name: np.zeros(1, np.int32) for name in ("token", "position", "random")}
    state |= {"keys": cache, "values": cache}
    fixed = {"temperature": np.array([temperature], np.float32), "seed": np.array([seed], np.int32)}
    names = [output.name for output in session.get_outputs()]
    chosen, logits = [], []
    for token in given:
        left = session.run(None, {"given": np.array([token], np.int32), **fixed, **state})
        found = dict(zip(names, left, strict=True))
        state = {name: found[export.NEXT + name] for name in state}
        chosen.append(int(state["token"][0]))
        logits.append(found["logits"][0])
    return chosen, logits


def test_the_file_computes_what_numpy_does() -> None:
    """Token by token with a cache, against all tokens at once; after the last position a text begins anew."""
    parameters = small(3)
    chosen, logits = runs(parameters, [5, 1, 7] + [-1] * 9, 0, 0)
    text = [5, 1, 7, *chosen[2:8]]
    expected = decoder.forward(rounded(parameters), SMALL, np.array([text]))[0][0]
    assert np.abs(expected - logits[: SMALL.positions]).max() < 2e-2  # ONNX Runtime rounds to 8 bits itself
    assert chosen[:9] == [int(row.argmax()) for row in logits[:9]]
    again = decoder.forward(rounded(parameters), SMALL, np.array([chosen[8:11]]))[0][0]
    assert np.abs(again - logits[SMALL.positions :]).max() < 2e-2


def test_what_is_drawn_depends_on_the_seed_and_is_likely() -> None:
    found = {tuple(runs(small(4), [1] + [-1] * 7, 1.0, seed)[0]) for seed in (1, 1, 2, 3, 4)}
    assert 2 < len(found) < 5
    chosen, logits = runs(small(4), [1] + [-1] * 7, 1.0, 9)
    for token, row in zip(chosen, logits, strict=True):
        assert np.exp(row[token] - row.max()) >= export.LIKELY


def test_the_committed_decoder() -> None:
    known = demo.Decoder.read()
    size = decoder.Size()
    assert (known.positions, len(known.tokens)) == (size.positions, size.tokens)
    assert list(known.state) == list(export.STATE)
    asked = known.begin("Alice was", 4)
    assert asked.shape[1] == 1
    assert (asked[-3:] == demo.NONE_GIVEN).all()
    for text, count in (("", 0), ("Alice was", 289)):
        with pytest.raises(GramophoneError, match="expected a text and what follows of at most 289 tokens, found"):
            known.begin(text, count)


def test_a_prompt_that_the_book_has_no_letters_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["--prompt", "Ω"]) == 2
    assert "no token has the character 'Ω'" in capsys.readouterr().err
