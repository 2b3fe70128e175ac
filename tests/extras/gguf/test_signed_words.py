# SPDX-License-Identifier: BSD-2-Clause
"""Nobody swaps words under a model: the command and a device's program read those that were signed, or none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import lz4.block
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from host_tools.cli import main
from host_tools.extras.gguf import signed_words as module
from host_tools.extras.gguf.file import Head
from host_tools.extras.gguf.file_words import words_of
from host_tools.extras.gguf.signed_words import decoded, signed_words
from host_tools.extras.gguf.words import NOTE, Words
from signing.delivery import Delivery
from signing.encryption import encrypt
from tests.support import gguf_models
from tests.support import replayer_samples as s
from trace_format import schema
from trace_format.errors import ChunkHashError, EncryptedError, GramophoneError, SectionError

WORDS = words_of(Head(gguf_models.words(), {}, 0))
# The same tokens with other texts: what would be read out of a model's answer is its contrary.
SWAPPED = replace(WORDS, tokens=[WORDS.tokens[1], WORDS.tokens[0], *WORDS.tokens[2:]])


def signed(words: Words | None) -> bytes:
    notes = {} if words is None else {NOTE: words.note()}
    return s.signed(s.trace().with_(notes=notes))


def notes_in(data: bytes) -> tuple[int, int]:
    """Where the notes lie in a signed trace, and how many bytes they have there."""
    delivery = Delivery(data)
    (part,) = delivery.sections.all(schema.SectionType.NOTES)
    return delivery.signed.offset + part.offset, len(part.stored)


def swapped() -> bytes:
    """The signed head of one trace, and behind it the notes of another, of as many bytes."""
    data, other = signed(WORDS), signed(SWAPPED)
    (at, size), (there, others) = notes_in(data), notes_in(other)
    assert size == others
    assert data[at : at + size] != other[there : there + size]
    return data[:at] + other[there : there + size] + data[at + size :]


def altered() -> bytes:
    data = bytearray(signed(WORDS))
    at, size = notes_in(bytes(data))
    data[at + size // 2] ^= 1
    return bytes(data)


def cut() -> bytes:
    data = signed(WORDS)
    at, size = notes_in(data)
    return data[: at + size // 2]


def exchanged() -> bytes:
    """Another owner's signature over a head with other words' hashes, where this one's was."""
    data, other = signed(WORDS), signed(SWAPPED)
    start = Delivery(data).signed.offset
    return data[:start] + other[start:]


CHANGES = {"swapped": swapped, "altered": altered, "cut": cut, "exchanged": exchanged}
SAID = {
    "swapped": "hash of chunk",
    "altered": "hash of chunk",
    "cut": "size of the file",
    "exchanged": "does not fit the trace's head",
}


@pytest.mark.parametrize("how", CHANGES)
def test_chat_refuses_words_that_were_not_signed(how: str, tmp_path: Path) -> None:
    file, key = tmp_path / "net.sgtr", tmp_path / "pub.pem"
    key.write_bytes(s.KEY.pem())
    file.write_bytes(CHANGES[how]())
    done = CliRunner().invoke(main, ["chat", str(file), "--key", str(key), "--prompt", "the"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {file}")
    assert SAID[how] in done.stderr
    assert done.stderr.count("\n") == 1


def test_words_of_a_signed_file() -> None:
    assert signed_words(signed(WORDS), "net.sgtr") == WORDS
    assert signed_words(memoryview(signed(WORDS)), "net.sgtr") == WORDS
    with pytest.raises(SectionError, match=r"net\.sgtr: notes: no words of a language model"):
        signed_words(signed(None), "net.sgtr")


@pytest.mark.parametrize("how", ["swapped", "altered"])
def test_words_that_the_head_does_not_name(how: str) -> None:
    with pytest.raises(
        ChunkHashError, match=r"net\.sgtr at offset 0x[0-9a-f]+: chunk \d+, with the model's words, is damaged"
    ):
        signed_words(CHANGES[how](), "net.sgtr")


def test_every_byte_of_the_notes_counts() -> None:
    data = bytearray(signed(WORDS))
    at, size = notes_in(bytes(data))
    for place in range(at, at + size, 97):
        data[place] ^= 0x20
        with pytest.raises(ChunkHashError):
            signed_words(data, "net.sgtr")
        data[place] ^= 0x20
    assert signed_words(data, "net.sgtr") == WORDS


def test_files_that_are_cut_at_any_place() -> None:
    data = signed(WORDS)
    for size in range(0, len(data) - 8, 41):
        with pytest.raises(GramophoneError, match=r"^net\.sgtr"):
            signed_words(data[:size], "net.sgtr")


def test_encrypted_words_are_no_caller_s() -> None:
    data = s.signed(encrypt(s.trace().with_(notes={NOTE: WORDS.note()}).build(), [s.KEY]))
    with pytest.raises(EncryptedError, match="--given takes tokens as numbers"):
        signed_words(data, "net.sgtr")


@given(st.binary(max_size=64), st.integers(0, 400), st.binary(max_size=300))
def test_blocks_of_lz4(repeated: bytes, times: int, rest: bytes) -> None:
    raw = repeated * times + rest + repeated[::2] * 5
    packed = lz4.block.compress(raw, store_size=False, mode="high_compression")
    assert decoded(packed, len(raw)) == raw
    for wrong in (len(raw) + 1, len(raw) - 1):
        with pytest.raises(ValueError, match="another size"):
            decoded(packed, wrong)


@given(st.binary(max_size=200))
def test_blocks_that_are_none(packed: bytes) -> None:
    """What the library does not take, or takes; never more bytes than asked for."""
    try:
        found = decoded(packed, 100)
    except (IndexError, ValueError):
        return
    assert len(found) == 100
    assert lz4.block.decompress(packed, uncompressed_size=100) == found


def test_numbers_of_the_format() -> None:
    assert (module.SIGNED, module.TRACE) == (schema.SIGNED_MAGIC, schema.TRACE_MAGIC)
    sizes = (schema.SignedHeader.sizeof(), schema.Header.sizeof(), schema.Section.sizeof(), schema.HASH_BYTES)
    assert sizes == (module.SIGNED_BYTES, module.HEADER_BYTES, module.SECTION_BYTES, module.HASH_BYTES)
    assert (module.CHUNKS, module.NOTES) == (schema.SectionType.CHUNKS, schema.SectionType.NOTES)
    assert (module.STORED, module.LZ4) == (schema.Codec.STORED, schema.Codec.LZ4)
    assert module.ENCRYPTED == schema.HEADER_FLAG_ENCRYPTED
