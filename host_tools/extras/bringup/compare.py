# SPDX-License-Identifier: BSD-2-Clause
"""How the pages of a board's jobs differ from those of the virtual GPU: by job, page and word."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.bringup.probes import Pages
from host_tools.support.results import Count, Positive, Result, Sha256, one_of
from trace_format.errors import GramophoneError
from trace_format.schema import PAGE_BYTES

LAST_BITS, NOT_WRITTEN, BESIDE, OTHER = "last bits", "not written", "written beside", "other value"
KINDS = (LAST_BITS, NOT_WRITTEN, BESIDE, OTHER)  # as codes from 1 on; of several in a page the highest is told
LAST_ULPS = 64  # floats that lie as near as this differ in last bits
LEAST_EXPONENT = 0x0080_0000  # of floats that are none of a small integer's bits

Words = NDArray[np.uint32]


class Word(Result):
    """A word that differs.

    Attributes:
        address: The GPU's.
        before: What the virtual GPU had there when the job started.
    """

    address: Count
    expected: Count
    found: Count
    before: Count
    kind: Annotated[str, one_of(*KINDS)]


class Page(Result):
    """A page that a job wrote.

    Attributes:
        job: By the order in which jobs start, from 0.
        sha256: Of what the board has there.
        words: That differ.
        kind: How; of several kinds the last of "last bits", "not written", "written beside", "other value". Null:
            the page is the same.
        first: The first word that differs.
    """

    job: Count
    layer: str
    address_space: Count
    address: Count
    sha256: Sha256
    expected_sha256: Sha256
    words: Count
    kind: Annotated[str, one_of(*KINDS)] | None
    first: Word | None


def kinds_of(found: Words, data: Words, before: Words, written: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """For each word how it differs, as an index into KINDS plus 1; 0: not.

    Args:
        found: the board's.
        data, before: the virtual GPU's after the job, and when it started.
        written: whether the job wrote to the word.
    """
    codes = np.full(found.shape, KINDS.index(OTHER) + 1, np.uint8)
    codes[~written] = KINDS.index(BESIDE) + 1
    codes[written & _near(found, data)] = KINDS.index(LAST_BITS) + 1
    codes[written & (found == before)] = KINDS.index(NOT_WRITTEN) + 1
    codes[found == data] = 0
    return codes


def _near(one: Words, two: Words) -> NDArray[np.bool_]:
    """Whether two words are finite floats between which there are few others."""
    magnitudes = [words & np.uint32(0x7FFF_FFFF) for words in (one, two)]
    floats = [(bits >= LEAST_EXPONENT) & (bits < 0x7F80_0000) for bits in magnitudes]
    signed = [
        np.where(words >> 31, -bits.astype(np.int64), bits.astype(np.int64))
        for words, bits in zip((one, two), magnitudes, strict=True)
    ]
    near: NDArray[np.bool_] = floats[0] & floats[1] & (np.abs(signed[0] - signed[1]) <= LAST_ULPS)
    return near


def compared(pages: Sequence[Pages], outputs: Mapping[str, Any], names: Sequence[str]) -> list[Page]:
    """Each page that jobs wrote, in the order of jobs and addresses.

    Args:
        pages: of the virtual GPU (`probes.expected`).
        outputs: of the board, by slot.
        names: of the jobs.

    Raises:
        GramophoneError: outputs are missing, or have another size.
    """
    found = []
    for piece in pages:
        board = _bytes(outputs.get(piece.slot), piece)
        layer = names[piece.job] if piece.job < len(names) else ""
        for at in range(0, len(piece.data), PAGE_BYTES):
            found.append(_page(piece, layer, at, board[at : at + PAGE_BYTES]))
    return found


def _bytes(array: Any, piece: Pages) -> bytes:
    if array is None:
        raise GramophoneError(f"output {piece.slot}: the board's pages of job {piece.job} are missing")
    data = np.asarray(array).tobytes()
    if len(data) != len(piece.data):
        raise GramophoneError(f"output {piece.slot}: expected {len(piece.data)} bytes, found {len(data)}")
    return data


def _page(piece: Pages, layer: str, at: int, board: bytes) -> Page:
    inside = slice(at, at + PAGE_BYTES)
    words, data, before = (
        np.frombuffer(side, "<u4") for side in (board, piece.data[inside], piece.before[inside])
    )
    written = np.frombuffer(piece.written[inside], np.uint32) != 0
    codes = kinds_of(words, data, before, written)
    first = None
    if codes.any():
        index = int(np.argmax(codes > 0))
        first = Word(
            address=piece.address + at + 4 * index,
            expected=int(data[index]),
            found=int(words[index]),
            before=int(before[index]),
            kind=KINDS[codes[index] - 1],
        )
    return Page(
        job=piece.job,
        layer=layer,
        address_space=piece.address_space,
        address=piece.address + at,
        sha256=hashlib.sha256(board).hexdigest(),
        expected_sha256=hashlib.sha256(piece.data[inside]).hexdigest(),
        words=int(np.count_nonzero(codes)),
        kind=KINDS[codes.max() - 1] if codes.any() else None,
        first=first,
    )


class Differing(Result):
    """The first job that differs.

    Attributes:
        pages, words: Of the job, that differ.
        kind: As a page's, of all its pages.
        first: The first word that differs.
    """

    job: Count
    layer: str
    pages: Positive
    words: Positive
    kind: Annotated[str, one_of(*KINDS)]
    first: Word


def first_job(pages: Sequence[Page], but: str = "") -> Differing | None:
    """The first job with a page that differs, by another kind than `but`; None: there is none."""
    wrong = [page for page in pages if page.kind is not None and page.kind != but]
    if not wrong:
        return None
    own = [page for page in wrong if page.job == wrong[0].job]
    first = min((page.first for page in own if page.first), key=lambda word: word.address)
    return Differing(
        job=own[0].job,
        layer=own[0].layer,
        pages=len(own),
        words=sum(page.words for page in own),
        kind=max((page.kind or "" for page in own), key=KINDS.index),
        first=first,
    )
