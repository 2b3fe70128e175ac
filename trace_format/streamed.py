# SPDX-License-Identifier: BSD-2-Clause
"""Pieces of a streamed trace: memory that a device reads, checks and decodes while jobs run.

A piece lies in the carve-out behind the image, for the jobs from `first_job` to `last_job`. From `from_job` on
nothing else uses its memory, so that a device may write it while that job or a later one runs. Before `first_job`
it must be there. A resident piece stays for later replays: neither the GPU nor anybody else writes its pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trace_format import codec, packing
from trace_format.codec import Buffer
from trace_format.errors import CodecError, PieceError, ReservedError, SectionError
from trace_format.network import Network
from trace_format.networks import pages_of
from trace_format.schema import ALIGNMENT, MAX_PIECE_BYTES, MAX_PIECES, PAGE_BYTES, PIECE_FLAG_RESIDENT, Codec

BYTES = packing.size_of("piece")
MAX_PACKED_BYTES = 1 << 15  # a device decodes a packed piece in one step, for which the GPU may wait


@dataclass(frozen=True)
class Piece:
    """A row of the section, with its bytes.

    Attributes:
        page: of the carve-out, where it begins.
        from_job: first job during which its memory may be written.
        first_job, last_job: of the jobs that need it.
        data: its bytes, whole pages.
        resident: it stays for later replays.
    """

    page: int
    from_job: int
    first_job: int
    last_job: int
    data: Buffer
    resident: bool = False

    @property
    def pages(self) -> int:
        """Its size."""
        return len(self.data) // PAGE_BYTES

    @property
    def end_page(self) -> int:
        """Page after its last one."""
        return self.page + self.pages

    def meets(self, other: Piece) -> bool:
        """Whether both have a page in common at some time."""
        in_memory = self.page < other.end_page and other.page < self.end_page
        return in_memory and self.from_job <= other.last_job and other.from_job <= self.last_job


@dataclass(frozen=True)
class Limits:
    """What the rest of the trace says.

    Attributes:
        image_bytes, carveout_bytes, job_count: of the manifest.
    """

    image_bytes: int
    carveout_bytes: int
    job_count: int

    @property
    def image_pages(self) -> int:
        """Pages of the image, the last one perhaps not full."""
        return pages_of(self.image_bytes)


def read_only_end(pieces: Sequence[Piece], image_bytes: int) -> int:
    """Page of the carve-out below which nothing is written but by the loader: image and resident pieces."""
    return max((piece.end_page for piece in pieces if piece.resident), default=pages_of(image_bytes))


def packed(pieces: Sequence[Piece], compress: bool) -> tuple[bytes, list[Buffer]]:
    """Content of the sections PIECES and STREAM, the latter in parts; equal pieces are stored once.

    Raises:
        ReservedError: a value does not fit.
    """
    rows, stream = [], []
    known: dict[bytes, tuple[int, int, int]] = {}
    size = 0
    for piece in pieces:
        key = bytes(piece.data)
        if key not in known:
            method, stored = codec.encode(piece.data, compress=compress)
            if len(stored) > MAX_PACKED_BYTES:
                method, stored = Codec.STORED, piece.data
            known[key] = size, len(stored), int(method)
            stream += [stored, bytes(-len(stored) % ALIGNMENT)]
            size += len(stored) + len(stream[-1])
        offset, stored_bytes, method_number = known[key]
        row = {
            "offset": offset,
            "stored_bytes": stored_bytes,
            "bytes": len(piece.data),
            "page": piece.page,
            "from_job": piece.from_job,
            "first_job": piece.first_job,
            "last_job": piece.last_job,
            "codec": method_number,
            "flags": PIECE_FLAG_RESIDENT if piece.resident else 0,
        }
        rows.append(packing.pack("piece", row))
    return b"".join(rows), stream


def parsed(rows: bytes, stream: Buffer, offset: int, stream_offset: int) -> list[Piece]:
    """The pieces of two sections' content, which lie at these offsets in the file.

    Raises:
        SectionError: the section has no whole number of rows, or too many.
        ReservedError: reserved bytes or bits are not zero.
        PieceError: a piece lies outside STREAM, or has no size that it may have.
        CodecError: it cannot be decoded.
    """
    count, more = divmod(len(rows), BYTES)
    if more or not 1 <= count <= MAX_PIECES:
        raise SectionError(
            "size of the pieces section",
            offset=offset,
            expected=f"1 to {MAX_PIECES} rows of {BYTES} bytes",
            found=len(rows),
        )
    found = []
    view = memoryview(stream)
    for index in range(count):
        at = offset + index * BYTES
        row = packing.unpack("piece", rows[index * BYTES : (index + 1) * BYTES], at)
        if row["flags"] & ~PIECE_FLAG_RESIDENT:
            raise ReservedError("reserved flags of a piece", offset=at + 33, expected=0, found=hex(row["flags"]))
        size, end = row["bytes"], row["offset"] + row["stored_bytes"]
        if not 0 < size <= MAX_PIECE_BYTES or size % PAGE_BYTES:
            raise PieceError(
                f"piece {index}: its size",
                offset=at,
                expected=f"a multiple of {PAGE_BYTES}, at most {MAX_PIECE_BYTES}",
                found=size,
            )
        if end > len(view):
            raise PieceError(f"piece {index}: its end in STREAM", offset=at, expected=len(view), found=end)
        if row["codec"] not in list(Codec):
            raise CodecError("unknown codec", offset=at + 32, expected=[int(c) for c in Codec], found=row["codec"])
        where = stream_offset + row["offset"]
        data = codec.decode(row["codec"], view[row["offset"] : end], size, offset=where)
        jobs = (row["from_job"], row["first_job"], row["last_job"])
        found.append(Piece(row["page"], *jobs, data, bool(row["flags"])))
    return found


def check(pieces: Sequence[Piece], limits: Limits, where: str = "") -> None:
    """Raise PieceError for the first rule that the pieces of a trace break; of none, nothing is asked."""
    if len(pieces) > MAX_PIECES:
        raise PieceError(f"{where}pieces", expected=f"at most {MAX_PIECES}", found=len(pieces))
    lowest = read_only_end(pieces, limits.image_bytes)
    pages = limits.carveout_bytes // PAGE_BYTES
    for index, piece in enumerate(pieces):
        name = f"{where}piece {index}"
        if not 0 < len(piece.data) <= MAX_PIECE_BYTES or len(piece.data) % PAGE_BYTES:
            raise PieceError(
                f"{name}: its size", expected=f"pages, at most {MAX_PIECE_BYTES}", found=len(piece.data)
            )
        begin = limits.image_pages if piece.resident else lowest
        if piece.page < begin or piece.end_page > pages:
            raise PieceError(
                f"{name}: its pages",
                expected=f"{begin} to {pages}",
                found=f"{piece.page} to {piece.end_page}",
            )
        jobs = (piece.from_job, piece.first_job, piece.last_job)
        if not piece.from_job <= piece.first_job <= piece.last_job < limits.job_count:
            raise PieceError(f"{name}: its jobs", expected=f"ascending, below {limits.job_count}", found=jobs)
        if piece.resident and (piece.from_job, piece.last_job) != (0, limits.job_count - 1):
            raise PieceError(
                f"{name}: jobs of a resident piece", expected=f"0 to {limits.job_count - 1}", found=jobs
            )
    for index, (before, piece) in enumerate(pairwise(pieces)):
        if before.first_job > piece.first_job:
            raise PieceError(
                f"{where}piece {index + 1}: first_job",
                expected=f"at least {before.first_job}",
                found=piece.first_job,
            )
    for index, piece in enumerate(pieces):
        for other, earlier in enumerate(pieces[:index]):
            if piece.meets(earlier):
                raise PieceError(
                    f"{where}piece {index}: its memory", expected="no other piece's", found=f"piece {other}'s"
                )


def in_order(pieces: Iterable[Piece]) -> list[Piece]:
    """As a trace has them: a device reads pieces in this order."""
    return sorted(pieces, key=lambda piece: (piece.first_job, piece.from_job, piece.page))


def check_owners(pieces: Sequence[Piece], networks: Sequence[Network], where: str = "") -> None:
    """Raise PieceError for a piece of a joint trace that is not one network's, or not as a whole.

    A resident piece has the same networks for each of its pages, any other lies in working memory of one.
    """
    for index, piece in enumerate(pieces if networks else ()):
        of_each = [_pages_of(piece, network) for network in networks]
        is_right = set(of_each) <= {0, piece.pages} if piece.resident else piece.pages in of_each
        if not is_right:
            raise PieceError(
                f"{where}piece {index}: its memory",
                expected="that of the same networks" if piece.resident else "within that of one network",
                found=f"{of_each} of {piece.pages} pages",
            )


def _pages_of(piece: Piece, network: Network) -> int:
    """How many pages of a piece are a network's."""
    own = network.image if piece.resident else [(network.first_page, network.end_page)]
    return sum(max(min(end, piece.end_page) - max(first, piece.page), 0) for first, end in own)
