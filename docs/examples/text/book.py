# SPDX-License-Identifier: BSD-2-Clause
"""A text to train a decoder on, and its tokens: Alice's Adventures in Wonderland (Lewis Carroll, 1865).

The ordinary pip client fetches it once, into the user's cache folder: an example of the source package of
`wordcloud` has Project Gutenberg's edition.
"""

import hashlib
import itertools
import re
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

from host_tools.support.cache import cache_dir, made_once
from trace_format.errors import GramophoneError

PACKAGE = "wordcloud==1.9.6"
ARCHIVE = "wordcloud-1.9.6"
SHA256 = "df17c468ff903bd0aba4f87c6540745d13a4931220dd4937cb363ad85a4771b9"
FIRST, LAST = "CHAPTER I. Down the Rabbit-Hole", "THE END"
# A space or line's end belongs to the word after it.
WORDS = re.compile(r"[ \n]?[A-Za-z]+|[ \n]?[^A-Za-z \n]+|[ \n]")


class BookError(GramophoneError):
    """The book cannot be had, or is another one."""


def fetch() -> str:
    """The book from its first chapter on; paragraphs are a line each.

    Raises:
        BookError: pip failed, or what it fetched is not the expected file.
    """
    folder = made_once(cache_dir("book") / SHA256[:16], _fetch)
    with tarfile.open(folder / f"{ARCHIVE}.tar.gz") as files:
        member = files.extractfile(f"{ARCHIVE}/examples/alice.txt")
        assert member is not None, "the archive's hash was checked, so the file is there"
        text = member.read().decode("utf-8-sig").replace("\r\n", "\n")
    text = text[text.index(FIRST) : text.rindex(LAST)]
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]
    return "\n".join(part for part in paragraphs if part and set(part) != {"*", " "}) + "\n"


def _fetch(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "wordcloud"]
    done = subprocess.run([*command, "--dest", str(folder), PACKAGE], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BookError(f"{PACKAGE} could not be fetched: {done.stderr.strip()}")
    archive = folder / f"{ARCHIVE}.tar.gz"
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        raise BookError(f"{archive.name}: expected SHA-256 {SHA256}, found {found}")


def vocabulary(text: str, size: int) -> list[str]:
    """Tokens for a text: its characters, and pairs that are frequent (byte pair encoding; Sennrich et al., 2016).

    Returns:
        `size` strings; a longer one comes after the two that it was made of.
    """
    tokens = sorted(set(text))
    words = Counter(tuple(word) for word in WORDS.findall(text))
    while len(tokens) < size:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in itertools.pairwise(word):
                pairs[pair] += count
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        tokens.append("".join(best))
        merged: Counter[tuple[str, ...]] = Counter()
        for word, count in words.items():
            merged[_joined(word, best)] += count
        words = merged
    return tokens


def _joined(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    out: list[str] = []
    for part in word:
        if out and (out[-1], part) == pair:
            out[-1] += part
        else:
            out.append(part)
    return tuple(out)


def encode(text: str, tokens: list[str]) -> list[int]:
    """Numbers of a text's tokens: of each word, joined in the order in which `vocabulary` found the pairs.

    Raises:
        BookError: a character that the book has not.
    """
    number = {token: at for at, token in enumerate(tokens)}
    if unknown := sorted(set(text) - number.keys()):
        raise BookError(f"no token has the character {unknown[0]!r}")
    known: dict[str, list[int]] = {}
    found: list[int] = []
    for word in WORDS.findall(text):
        if word not in known:
            parts = tuple(word)
            while pairs := [pair for pair in itertools.pairwise(parts) if "".join(pair) in number]:
                parts = _joined(parts, min(pairs, key=lambda pair: number["".join(pair)]))
            known[word] = [number[part] for part in parts]
        found += known[word]
    return found
