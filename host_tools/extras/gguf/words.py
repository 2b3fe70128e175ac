# SPDX-License-Identifier: BSD-2-Clause
"""A model's words: from text to token numbers and back, and how a question is put to it.

They are in the notes of the recorded trace and under its signature, so that nobody swaps words under a model. The
tokenizer is byte-level byte-pair encoding ("gpt2" in GGUF files), as in OpenAI's GPT-2 (src/encoder.py); before
merges, a text is cut into pieces by one of the patterns of llama.cpp's src/llama-vocab.cpp.

It runs on devices too, in `gramophone-tee`, so it imports only Python's standard library and errors.
"""

from __future__ import annotations

import itertools
import re
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Any, TypeGuard

from trace_format.errors import SectionError

NOTE = "words"  # in a recording's notes
# {L}, {N}: Unicode's letters and numbers, of which Python's `re` has no names.
_CONTRACTED = r"'(?:s|t|re|ve|m|ll|d)"
_GPT2 = rf"{_CONTRACTED}| ?{{L}}+| ?{{N}}+| ?(?:(?!{{L}}|{{N}})\S)+|\s+(?!\S)|\s+"
_LATER = rf"(?i:{_CONTRACTED})|(?:(?!{{L}}|{{N}})[^\r\n])?{{L}}+|{{N}}%s| ?(?:(?!{{L}}|{{N}})\S)+[\r\n]*"
_LATER += r"|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    "gpt-2": (_GPT2,),
    "smollm": ("{N}", _GPT2),  # each digit is a piece
    "qwen2": (_LATER % "",),
    "llama-bpe": (_LATER % "{{1,3}}",),
}
BEGIN, END = "<|im_start|>", "<|im_end|>"  # of ChatML, the form of a conversation


@dataclass(frozen=True)
class Words:
    """What a conversation needs.

    Attributes:
        tokens: their texts, in the tokenizer's alphabet of bytes.
        merges: pairs of texts with a space between, the first first.
        special: numbers of tokens that no merge makes.
        pattern: of PATTERNS.
        ends: tokens that end an answer.
        system: what the model is told before the first question, which the state's first value has; "": nothing.
    """

    tokens: list[str]
    merges: list[str]
    special: list[int]
    pattern: str
    ends: list[int]
    system: str

    def note(self) -> dict[str, Any]:
        """For a recording's notes."""
        return asdict(self)

    def question(self, text: str, *, is_first: bool) -> list[int]:
        """Tokens of a question, up to where the answer begins. What looks like a special token in it is none.

        Args:
            text: the question.
            is_first: nothing was said before but `told`; else the answer's last token was given already.
        """
        before = "" if is_first else "\n"
        after = f"{END}\n{BEGIN}assistant\n"
        return [*self._marked(f"{before}{BEGIN}user\n"), *self.encode(text), *self._marked(after)]

    def told(self) -> list[int]:
        """Tokens of what the model is told before the first question. What looks like a special one is none."""
        if not self.system:
            return []
        return [*self._marked(f"{BEGIN}system\n"), *self.encode(self.system), *self._marked(f"{END}\n")]

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, none of them special."""
        return [number for piece in self._pieces(text) for number in self._merged(piece)]

    def decode(self, token: int) -> bytes:
        """What a token stands for; b"" for a special one."""
        if token in self.special or not 0 <= token < len(self.tokens):
            return b""
        return bytes(self._bytes.get(letter, 0x3F) for letter in self.tokens[token])

    def _marked(self, text: str) -> list[int]:
        """Tokens of a text of the conversation's form, special ones among them."""
        parts = re.split(f"({re.escape(BEGIN)}|{re.escape(END)})", text)
        found: list[int] = []
        for part in parts:
            found += [self._numbers[part]] if part in (BEGIN, END) else self.encode(part)
        return found

    def _pieces(self, text: str) -> Iterator[str]:
        parts = [text]
        for pattern in _compiled(self.pattern):
            parts = [piece for part in parts for piece in _cut(pattern, part)]
        yield from parts

    def _merged(self, piece: str) -> list[int]:
        letters = [_LETTERS[byte] for byte in piece.encode()]
        while len(letters) > 1:
            ranks = [self._ranks.get(pair, sys.maxsize) for pair in itertools.pairwise(letters)]
            best = min(ranks)
            if best == sys.maxsize:
                break
            at = ranks.index(best)
            letters[at : at + 2] = [letters[at] + letters[at + 1]]
        return [self._numbers[letter] for letter in letters if letter in self._numbers]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {text: number for number, text in enumerate(self.tokens)}

    @cached_property
    def _ranks(self) -> dict[tuple[str, ...], int]:
        return {tuple(pair.split(" ")): rank for rank, pair in enumerate(self.merges)}

    @cached_property
    def _bytes(self) -> dict[str, int]:
        return {letter: byte for byte, letter in enumerate(_LETTERS)}


def _alphabet() -> list[str]:
    """A letter for each byte: itself where it prints, else one from 256 on (GPT-2's bytes_to_unicode)."""
    prints = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in prints else next(others)) for byte in range(256)]


_LETTERS = _alphabet()


@cache
def _compiled(name: str) -> list[re.Pattern[str]]:
    every = map(chr, range(sys.maxunicode + 1))
    numbers = f"[{''.join(letter for letter in every if unicodedata.category(letter)[0] == 'N')}]"
    classes = {"L": rf"(?:(?!{numbers})[^\W_])", "N": numbers}
    return [re.compile(pattern.format(**classes)) for pattern in PATTERNS[name]]


def _cut(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """What the pattern matches, and what is between."""
    end = 0
    for match in pattern.finditer(text):
        if match.start() > end:
            yield text[end : match.start()]
        yield match.group()
        end = match.end()
    if end < len(text):
        yield text[end:]


def noted_words(notes: dict[str, Any]) -> Words:
    """The words in a trace's notes.

    Raises:
        SectionError: there are none, or the note is something else.
    """
    note = notes.get(NOTE)
    if note is None:
        raise SectionError("notes: no words of a language model; 'gramophone record gguf' records them")
    try:
        words = Words(**note)
    except TypeError:
        words = None
    if (
        words is None
        or not (are_texts(words.tokens) and are_texts(words.merges))
        or not all(_numbers(one, len(words.tokens)) for one in (words.special, words.ends))
        or not {BEGIN, END} <= set(words.tokens)
        or words.pattern not in PATTERNS
        or not isinstance(words.system, str)
    ):
        raise SectionError(f"notes: {NOTE}: expected the words of a language model, found something else")
    return words


def are_texts(found: Any) -> TypeGuard[list[str]]:
    """Whether it is a list of texts."""
    return isinstance(found, list) and all(isinstance(one, str) for one in found)


def _numbers(found: Any, below: int) -> bool:
    return isinstance(found, list) and all(type(one) is int and 0 <= one < below for one in found)
