"""A trace's memory as a model that passes change, and the trace that a model stands for.

A trace says by MAP, UPLOAD and CLEAR actions what GPU-visible memory is. `Memory.of` gathers that into pages:
where each is mapped, what it holds when a replay starts and which of those bytes matter. Passes edit pages;
`Memory.emit` writes the actions anew, in one canonical order:

    prologue registers, MAPs | REPLAY_START | CLEARs, UPLOADs, COPY_TO_GPU | jobs with late UPLOADs | COPY_FROM_GPU
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from host_tools.support.pages import pages_of, pieces
from trace_format.actions import ACTION_DTYPE, MAP_WRITE, Op, action, space_of, va_operands, va_page
from trace_format.errors import ManifestError, SlotError
from trace_format.schema import MAX_CARVEOUT_BYTES, PAGE_BYTES, SlotKind
from trace_format.trace import Trace

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
MERGE_GAP = 256  # an UPLOAD action costs 16 bytes and hundreds of instructions: closer runs become one
BLOCK_PAGES = 512  # one table entry maps 2 MiB where virtual and physical address agree below that
CLEAR_GAP = 1024  # so does a CLEAR, whose bytes cost nothing in the file
_INITIAL = (Op.UPLOAD, Op.CLEAR)
_MAPPING = (Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM)
_BLANK_CONTENT: Bytes = np.zeros(PAGE_BYTES, np.uint8)
_BLANK_MASK: Mask = np.zeros(PAGE_BYTES, np.bool_)
_BLANK_CONTENT.flags.writeable = _BLANK_MASK.flags.writeable = False


@dataclass
class Page:
    """One physical page of GPU-visible memory.

    Attributes:
        frame: page number in the carve-out.
        content: what it holds when a replay starts, PAGE_BYTES bytes.
        live: bytes whose initial value must be there; the rest may be anything.
        in_image: the page is mapped where the image has it, so it costs no copy (relocation decides).
    """

    frame: int
    content: Bytes
    live: Mask
    in_image: bool = False

    @classmethod
    def blank(cls, frame: int) -> Page:
        """A page of which nothing is known. Blank pages share their arrays: there may be very many."""
        return cls(frame, _BLANK_CONTENT, _BLANK_MASK)

    def own(self) -> None:
        """Before the page's arrays are changed."""
        if self.content is _BLANK_CONTENT:
            self.content = np.zeros(PAGE_BYTES, np.uint8)
        if self.live is _BLANK_MASK:
            self.live = np.zeros(PAGE_BYTES, np.bool_)

    def put(self, part: slice, content: Bytes | int) -> None:
        """Give some of the page's bytes a content, which must be there when a replay starts."""
        self.own()
        self.content[part] = content
        self.live[part] = True

    @property
    def is_blank(self) -> bool:
        """No byte of it matters when a replay starts."""
        return self.live is _BLANK_MASK


@dataclass(frozen=True)
class Mapping:
    """A GPU virtual page: its frame and MAP_* permissions."""

    frame: int
    flags: int


class Conflict(Exception):
    """The trace changes a mapping while jobs run; passes over memory leave it as it is."""


@dataclass
class Late:
    """Bytes that the CPU writes between jobs: before action `before` of the register stream."""

    before: int
    to: int
    data: bytes

    @property
    def frames(self) -> range:
        """Where they lie."""
        return pages_of(self.to, len(self.data))


@dataclass
class Memory:
    """See the module's text. `prologue` and `stream` hold every action that is not about memory."""

    trace: Trace
    prologue: NDArray[np.void]
    stream: NDArray[np.void]
    mappings: dict[tuple[int, int], Mapping] = field(default_factory=dict)  # (address space, virtual page)
    pages: dict[int, Page] = field(default_factory=dict)
    late: list[Late] = field(default_factory=list)

    @classmethod
    def of(cls, trace: Trace) -> Memory:
        """Gather the memory of a trace.

        Raises:
            Conflict: a virtual page is mapped to two frames.
        """
        actions = trace.actions
        ops = actions["op"]
        start = _first(ops == Op.REPLAY_START, len(actions))
        first_job = _first(ops == Op.JOB, len(actions))
        memory = cls(trace, actions[:0], actions[:0])
        other = ~np.isin(ops, [int(o) for o in (*_INITIAL, *_MAPPING, Op.REPLAY_START)])
        position = np.cumsum(other)
        for index in np.flatnonzero(~other):
            row = actions[index]
            op = int(row["op"])
            if op == Op.MAP_GPU_MEM:
                memory._map(row)
            elif op == Op.UNMAP_GPU_MEM and index < first_job:
                memory._unmap(row)  # later ones are left out: memory that stays mapped harms no job
            elif op in _INITIAL and index < first_job:
                memory._fill(row)
            elif op in _INITIAL:
                source = int(row["b"])
                data = (
                    trace.image[source : source + int(row["value"])]
                    if op == Op.UPLOAD
                    else bytes(int(row["value"]))
                )
                memory.late.append(Late(int(position[index]), int(row["a"]), data))
        in_prologue = np.arange(len(actions)) < start
        memory.prologue = actions[other & in_prologue]
        memory.stream = actions[other & ~in_prologue]
        for item in memory.late:
            item.before -= len(memory.prologue)
        mapped = {mapping.frame for mapping in memory.mappings.values()}
        memory.pages = {frame: memory._page(frame) for frame in sorted(mapped)}
        memory.late = [item for item in memory.late if item.to // PAGE_BYTES in mapped]
        image = np.frombuffer(trace.image, np.uint8)
        for frame, page in memory.pages.items():
            if (frame + 1) * PAGE_BYTES <= len(image):
                page.content = image[frame * PAGE_BYTES : (frame + 1) * PAGE_BYTES].copy()
                page.in_image = True
                page.live = np.ones(PAGE_BYTES, np.bool_)
        return memory

    def _map(self, row: np.void) -> None:
        space, base = space_of(row), va_page(row)
        for i in range(int(row["value"])):
            new = Mapping(int(row["b"]) + i, int(row["flags"]))
            old = self.mappings.setdefault((space, base + i), new)
            if old != new:
                raise Conflict(f"virtual page {base + i:#x} of address space {space} is mapped twice")

    def _unmap(self, row: np.void) -> None:
        for page in range(va_page(row), va_page(row) + int(row["value"])):
            self.mappings.pop((space_of(row), page), None)

    def _page(self, frame: int) -> Page:
        if frame not in self.pages:
            self.pages[frame] = Page.blank(frame)
        return self.pages[frame]

    def _fill(self, row: np.void) -> None:
        size, source = int(row["value"]), int(row["b"])
        data = np.frombuffer(self.trace.image, np.uint8)[source : source + size]
        for frame, inside, part in pieces(int(row["a"]), size):
            self._page(frame).put(inside, data[part] if int(row["op"]) == Op.UPLOAD else 0)

    def slot_frames(self, *kinds: SlotKind, bound: bool = False) -> set[int]:
        """Frames that hold slots of these kinds, or of these kinds and with a recorded value.

        Raises:
            SlotError: some of a slot is not mapped.
        """
        found = set()
        for slot in self.trace.slots:
            if slot.kind in kinds and (slot.bound or not bound):
                for va in pages_of(slot.address, slot.span):
                    if (slot.address_space, va) not in self.mappings:
                        raise SlotError(f"slot {slot.name} is not mapped at GPU address {va * PAGE_BYTES:#x}")
                    found.add(self.mappings[slot.address_space, va].frame)
        return found

    def late_frames(self) -> set[int]:
        """Frames that the CPU writes between jobs."""
        return {frame for item in self.late for frame in item.frames}

    def written_frames(self) -> set[int]:
        """Frames that cannot lie in the image: a job, the CPU or a caller may write them."""
        by_gpu = {m.frame for m in self.mappings.values() if m.flags & MAP_WRITE}
        return by_gpu | self.late_frames() | self.slot_frames(SlotKind.INPUT, SlotKind.PARAMETER)

    def behaviour(self) -> bytes:
        """A digest of what jobs do and find, leaving out permissions: equal digests, equal accesses."""
        digest = hashlib.sha256(self.prologue.tobytes() + self.stream.tobytes())
        digest.update(repr(sorted((key, m.frame) for key, m in self.mappings.items())).encode())
        digest.update(repr([(x.before, x.to, x.data) for x in self.late]).encode())
        for frame in sorted(self.pages):
            digest.update(self.pages[frame].content.tobytes() + self.pages[frame].live.tobytes())
        return digest.digest()

    def move(self, target: dict[int, int]) -> None:
        """Give every frame the number that `target` says."""
        self.mappings = {key: Mapping(target[m.frame], m.flags) for key, m in self.mappings.items()}
        self.pages = {target[frame]: page for frame, page in self.pages.items()}
        for frame, page in self.pages.items():
            page.frame = frame
        for item in self.late:
            # A late upload crosses no page border: the recorder cuts them there.
            item.to = target[item.to // PAGE_BYTES] * PAGE_BYTES + item.to % PAGE_BYTES

    def image_pages(self) -> int:
        """Size of the image that `emit` would pack, in pages."""
        return -(-len(self._emit(self.trace.carveout_bytes).image) // PAGE_BYTES)

    def emit(self, carveout_bytes: int | None = None) -> Trace:
        """The trace that this model stands for; the image is packed anew.

        Where the image has grown over pages that do not lie in it, they all move up, by whole blocks of a page
        table: what lies in the image when the trace is read again must be what lies there now.

        Raises:
            ManifestError: a carve-out cannot be that large.
        """
        trace = self._emit(carveout_bytes or self.trace.carveout_bytes)
        image_pages = -(-len(trace.image) // PAGE_BYTES)
        covered = max((image_pages - frame for frame, page in self.pages.items() if not page.in_image), default=0)
        if covered <= 0:
            return trace
        by = -(-covered // BLOCK_PAGES) * BLOCK_PAGES
        self.move({frame: frame + (0 if page.in_image else by) for frame, page in self.pages.items()})
        return self._emit(trace.carveout_bytes + by * PAGE_BYTES)

    def _emit(self, carveout_bytes: int) -> Trace:
        needed = (max(self.pages, default=0) + 1) * PAGE_BYTES
        if needed > MAX_CARVEOUT_BYTES:
            raise ManifestError(
                "the trace needs too much memory", expected=f"at most {MAX_CARVEOUT_BYTES} bytes", found=needed
            )
        image = _Image()
        for page in sorted((p for p in self.pages.values() if p.in_image), key=lambda p: p.frame):
            image.place(page)
        fills = self._initial(image)
        stream = []
        at = 0
        for item in sorted(self.late, key=lambda x: x.before):
            stream.append(self.stream[at : item.before])
            size = len(item.data)
            if any(item.data):
                stream.append(_one(action(Op.UPLOAD, value=size, a=item.to, b=image.append(item.data))))
            else:
                stream.append(_one(action(Op.CLEAR, value=size, a=item.to)))
            at = item.before
        stream.append(self.stream[at:])
        parts = [*self._prologue(), _one(action(Op.REPLAY_START)), fills, *stream]
        return self.trace.with_(
            actions=np.concatenate(parts),
            image=image.bytes(),
            carveout_bytes=carveout_bytes,
            raw=False,
        )

    def _prologue(self) -> list[NDArray[np.void]]:
        """Maps go before the page table is set, so that the GPU never sees it half made."""
        at = _first(self.prologue["op"] == Op.SET_GPU_PGTABLE, len(self.prologue))
        return [self.prologue[:at], self._maps(), self.prologue[at:]]

    def _maps(self) -> NDArray[np.void]:
        rows: list[np.void] = []
        run: tuple[int, int, int, int, int] | None = None  # space, va page, frame, pages, flags
        for (space, va), mapping in sorted(self.mappings.items()):
            if run and (space, va, mapping.frame, mapping.flags) == (
                run[0],
                run[1] + run[3],
                run[2] + run[3],
                run[4],
            ):
                run = (*run[:3], run[3] + 1, run[4])
                continue
            if run:
                rows.append(_map_row(run))
            run = (space, va, mapping.frame, 1, mapping.flags)
        if run:
            rows.append(_map_row(run))
        return np.array(rows, dtype=ACTION_DTYPE)

    def _initial(self, image: _Image) -> NDArray[np.void]:
        """CLEAR and UPLOAD actions that bring the pages outside the image to their initial content."""
        clears: list[tuple[int, int]] = []
        uploads: list[tuple[int, int]] = []
        kept = (p for p in self.pages.values() if not p.in_image and not p.is_blank)
        for page in sorted(kept, key=lambda p: p.frame):
            base = page.frame * PAGE_BYTES
            zeros = page.live.copy()
            for start, end in runs(page.live & (page.content != 0), MERGE_GAP):
                zeros[start:end] = False  # the upload brings its zeros along
                _extend(uploads, base + start, base + end)
            for start, end in runs(zeros, CLEAR_GAP):
                _extend(clears, base + start, base + end)
        rows = [action(Op.CLEAR, value=end - start, a=start) for start, end in _joined(clears)]
        for start, end in uploads:
            parts = [self.pages[frame].content[inside] for frame, inside, _ in pieces(start, end - start)]
            data = np.concatenate(parts).tobytes()
            rows.append(action(Op.UPLOAD, value=end - start, a=start, b=image.append(data)))
        return np.array(rows, dtype=ACTION_DTYPE)


class _Image:
    """The image being written: whole pages first, at the frames they keep, then pieces."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.pieces: dict[bytes, int] = {}

    def place(self, page: Page) -> None:
        at = page.frame * PAGE_BYTES
        if at < len(self.data):
            raise ValueError(f"two pages of the image at frame {page.frame}")
        self.data += bytes(at - len(self.data)) + page.content.tobytes()

    def append(self, data: bytes) -> int:
        if data not in self.pieces:
            self.pieces[data] = len(self.data)
            self.data += data
        return self.pieces[data]

    def bytes(self) -> bytes:
        return bytes(self.data)


def runs(mask: Mask, gap: int) -> list[tuple[int, int]]:
    """Runs of True as (start, end); runs closer than `gap` become one."""
    where = np.flatnonzero(mask)
    if not len(where):
        return []
    breaks = np.flatnonzero(np.diff(where) > gap)
    starts = where[np.concatenate(([0], breaks + 1))]
    ends = where[np.concatenate((breaks, [len(where) - 1]))] + 1
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _extend(found: list[tuple[int, int]], start: int, end: int) -> None:
    """Append a run, joining it to the last one where they touch."""
    if found and found[-1][1] == start:
        found[-1] = (found[-1][0], end)
    else:
        found.append((start, end))


def _joined(clears: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Clears that are close as one: too much does no harm, what is not zero is uploaded afterwards."""
    joined: list[tuple[int, int]] = []
    for start, end in clears:
        if joined and start - joined[-1][1] < CLEAR_GAP:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _map_row(run: tuple[int, int, int, int, int]) -> np.void:
    space, va, frame, pages, flags = run
    return action(Op.MAP_GPU_MEM, flags=flags, value=pages, b=frame, **va_operands(space, va))


def _one(row: np.void) -> NDArray[np.void]:
    return np.array([row], dtype=ACTION_DTYPE)


def _first(mask: Mask, default: int) -> int:
    found = np.flatnonzero(mask)
    return int(found[0]) if len(found) else default
