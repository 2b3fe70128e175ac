# SPDX-License-Identifier: BSD-2-Clause
"""GGUF files: what is read of them, and malformed or hostile ones, each refused in a sentence with its offset."""

from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools.cli import main
from host_tools.extras.gguf.blocks import floats, matrix
from host_tools.extras.gguf.file import GgufError, Tensor, read, read_head
from tests.support import gguf_file
from tests.support.gguf_file import KINDS, random_blocks, text, value, written
from trace_format.errors import GramophoneError

VALUES = {
    "general.architecture": "llama",
    "general.name": "tiny",
    "llama.block_count": 2,
    "a.truth": True,
    "a.float": 0.5,
    "a.list": [1, 2, 3],
    "a.floats": [0.5, 1.5],
    "tokenizer.ggml.tokens": ["a", "b", "é"],
}
TENSORS = {
    "one": ("F32", (4,), np.arange(4, dtype="<f4").tobytes()),
    "two": ("Q8_0", (2, 32), random_blocks("Q8_0", 2, 32, np.random.default_rng(0))),
}
GOOD = written(VALUES, TENSORS)


def head(keys: bytes = b"", tensors: bytes = b"", counts: tuple[int, int] = (0, 0), version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, *counts) + keys + tensors


def row(name: str = "t", sizes: tuple[int, ...] = (32,), kind: int = 0, place: int = 0, axes: int = -1) -> bytes:
    count = len(sizes) if axes < 0 else axes
    return text(name) + struct.pack(f"<I{len(sizes)}Q", count, *sizes) + struct.pack("<IQ", kind, place)


def one(found: bytes) -> bytes:
    """A file with one key, of this type and value."""
    return head(text("k") + found, counts=(0, 1)) + bytes(64)


def table(*rows: bytes, data: int = 4096) -> bytes:
    return head(tensors=b"".join(rows), counts=(len(rows), 0)) + bytes(data)


HUGE = (1 << 64) - 1
HOSTILE = {
    "empty": (b"", "at offset 0x0: not a GGUF file: expected b'GGUF', found b''"),
    "ONNX": (b"\x08\x07" + bytes(60), "at offset 0x0: not a GGUF file: expected b'GGUF', found"),
    "TFLite": (
        bytes(4) + b"TFL3" + bytes(40),
        "it is a TensorFlow Lite file; 'gramophone record tflite' takes it",
    ),
    "version 2": (head(version=2) + bytes(40), "at offset 0x4: version: expected 3, found 2"),
    "big-endian": (head(version=3 << 24) + bytes(40), "version: expected 3, found 50331648, which is big-endian"),
    "no version": (b"GGUF\x03", "at offset 0x4: the version: the file ends: expected 4 bytes, found 1"),
    "tensors without end": (head(counts=(HUGE, 0)), "at offset 0x8: the number of tensors: expected at most"),
    "too many tensors": (
        head(counts=(10_001, 0)) + bytes(1 << 20),
        "tensors: expected at most 10000, found 10001",
    ),
    "keys without end": (head(counts=(0, HUGE)), "at offset 0x10: the number of keys: expected at most"),
    "too many keys": (head(counts=(0, 4097)) + bytes(1 << 20), "keys: expected at most 4096, found 4097"),
    "a key that is huge": (
        head(struct.pack("<Q", HUGE), counts=(0, 1)) + bytes(9),
        "at offset 0x18: the number of",
    ),
    "a key without a name": (head(text("") + value(1), counts=(0, 1)), "at offset 0x18: key: expected a new name"),
    "a key twice": (head((text("k") + value(1)) * 2, counts=(0, 2)), "key: expected a new name, found 'k'"),
    "no text": (one(struct.pack("<IQ", 8, 2) + b"\xff\xfe"), "k: expected UTF-8, found invalid start byte"),
    "a type that is none": (
        one(struct.pack("<I", 13)),
        "at offset 0x21: k: its type: expected a type from 0 to 12",
    ),
    "a text without end": (one(struct.pack("<IQ", 8, HUGE)), "the number of bytes of k: expected at most"),
    "an array without end": (
        one(struct.pack("<IIQ", 9, 0, HUGE)),
        "the number of elements of k: expected at most",
    ),
    "arrays in arrays": (
        one(struct.pack("<II", 9, 9) * 99),
        "k: its elements: expected numbers or texts, found arrays",
    ),
    "an array of no type": (
        one(struct.pack("<IIQ", 9, 77, 1)),
        "k: its type: expected a type from 0 to 12, found 77",
    ),
    "a number that is none": (one(struct.pack("<If", 6, np.nan)), "k: expected a finite number, found nan"),
    "an endless element": (
        one(struct.pack("<IIQ2f", 9, 6, 2, 1, np.inf)),
        "k: element 1: expected a finite number",
    ),
    "an odd alignment": (
        head(text("general.alignment") + value(24), counts=(0, 1)),
        "alignment: expected a power of",
    ),
    "no alignment": (
        head(text("general.alignment") + value("8"), counts=(0, 1)),
        "alignment: expected a power of",
    ),
    "a name that is long": (table(row("n" * 65)), "the number of bytes of a tensor's name: expected at most 64"),
    "no dimensions": (table(row(sizes=())), "tensor t: dimensions: expected 1 to 4, found 0"),
    "five dimensions": (table(row(sizes=(1,) * 5)), "tensor t: dimensions: expected 1 to 4, found 5"),
    "dimensions without end": (
        table(row(axes=0xFFFFFFFF)),
        "tensor t: dimensions: expected 1 to 4, found 4294967295",
    ),
    "no elements": (table(row(sizes=(32, 0))), "tensor t: its sizes: expected 1 to 2^40 elements, found 32x0"),
    "sizes that overflow": (table(row(sizes=(1 << 33, 1 << 33))), "its sizes: expected 1 to 2^40 elements"),
    "a type of tensors that is none": (
        table(row(kind=99)),
        "tensor t: its type: expected a type of ggml's, found 99",
    ),
    "rows of half a block": (
        table(row(sizes=(48,), kind=8)),
        "its rows: expected a multiple of 32 for Q8_0, found 48",
    ),
    "rows of half a K block": (
        table(row(sizes=(128,), kind=12)),
        "expected a multiple of 256 for Q4_K, found 128",
    ),
    "a place that is odd": (table(row(place=4)), "tensor t: its place: expected a multiple of 32, found 4"),
    "a place far away": (
        table(row(place=1 << 60)),
        "tensor t: its end: expected at most 4089, where the file ends",
    ),
    "a tensor that is cut off": (table(row(sizes=(2048,))), "tensor t: its end: expected at most 4089, where"),
    "tensors that overlap": (
        table(row("a"), row("b", place=64)),
        "tensor b: its place: expected at least 128, where",
    ),
    "a name twice": (table(row("a"), row("a", place=128)), "tensor: expected a new name, found 'a'"),
    "a table that is cut off": (
        head(tensors=row()[:25], counts=(1, 0)),
        "at offset 0x31: tensor t: its place: the file ends",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_file(name: str, tmp_path: Path) -> None:
    data, sentence = HOSTILE[name]
    path = gguf_file.save(tmp_path / "m.gguf", data)
    with pytest.raises(GgufError) as error:
        read(path)
    assert error.value.offset is not None
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_what_a_file_says() -> None:
    found = read_head(GOOD)
    assert found.values == VALUES
    assert found.architecture == "llama"
    assert {name: (t.kind, t.shape) for name, t in found.tensors.items()} == {
        name: (kind, shape) for name, (kind, shape, _) in TENSORS.items()
    }
    for name, tensor in found.tensors.items():
        assert GOOD[tensor.offset : tensor.offset + tensor.size] == TENSORS[name][2]


def test_every_cut_and_many_flips() -> None:
    """A damaged file is refused in a sentence, or is another one: never a traceback, never beyond its end."""
    random = np.random.default_rng(1)
    damaged = [GOOD[:size] for size in range(0, len(GOOD), 29)]
    for _ in range(40):
        changed = bytearray(GOOD)
        for at in random.integers(0, len(GOOD) - 128, 3):
            changed[at] ^= 1 << random.integers(0, 8)
        damaged.append(bytes(changed))
    for data in damaged:
        with contextlib.suppress(GramophoneError):
            for tensor in read_head(data).tensors.values():
                assert tensor.offset + tensor.size <= len(data)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.integers(1, 3), st.integers(1, 2), st.integers(0, 1 << 30))
def test_weights_are_those_of_plain_loops(kind: str, rows: int, blocks: int, seed: int) -> None:
    """To the bit, for random numbers and scales."""
    columns = 256 * blocks
    raw = random_blocks(kind, rows, columns, np.random.default_rng(seed))
    tensor = Tensor("t", kind, (rows, columns), 3, len(raw))
    found = floats(matrix(tensor, b"abc" + raw))
    assert found.shape == (rows, columns)
    assert np.array_equal(found.reshape(-1), gguf_file.weights(kind, raw))


def test_inspect(tmp_path: Path) -> None:
    path = gguf_file.save(tmp_path / "m.gguf", GOOD)
    result = CliRunner().invoke(main, ["inspect", str(path), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["kind"] == "language model (GGUF)"
    assert found["figures"]["tensors"] == ["1 F32, 16 bytes", "1 Q8_0, 68 bytes"]
    path.write_bytes(GOOD[:100])
    result = CliRunner().invoke(main, ["inspect", str(path)])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {path} at offset ")
