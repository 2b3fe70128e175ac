# SPDX-License-Identifier: BSD-2-Clause
"""A trace's memory as a model that passes change, and the trace that a model stands for.

A trace says by MAP, UPLOAD and CLEAR actions what GPU-visible memory is. `Memory.of` gathers that into pages:
where each is mapped, what it holds when a replay starts and which of those bytes matter. Passes edit pages;
`Memory.emit` writes the actions again, in one canonical order:

    prologue registers, MAPs, fills of state | REPLAY_START | CLEARs, UPLOADs, COPY_TO_GPU |
    jobs, UPLOADs between | COPY_FROM_GPU

State is what the prologue fills and no replay does: it keeps what a replay leaves (host_tools/passes/state.py), or
what jobs of the prologue make of it (host_tools/gpus/mali/preparation.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from host_tools.model.frames import CpuWrite, Mask, Pages, dense_pages
from host_tools.model.joined import joined
from host_tools.model.mappings import Mappings, MapRun
from host_tools.model.packing import Packing, map_actions
from host_tools.support.pages import pages_of, pieces
from trace_format import operators
from trace_format.actions import MAP_WRITE, Action, Actions, Columns, Op, Type, action, array_of, ops_with
from trace_format.errors import ManifestError, SlotError
from trace_format.schema import MAX_CARVEOUT_BYTES, PAGE_BYTES, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

BLOCK_PAGES = 512  # pages in front of others move by so many: what blocks of a page table can map stays so
_INITIAL = (Op.UPLOAD, Op.CLEAR)
_MAPPING = (Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM)
# Opcodes that name memory whose place or content the model may change, in a way that it knows nothing of.
_STRANGERS = set(ops_with(Type.FRAME, Type.TARGET, Type.SOURCE)) - {*_INITIAL, *_MAPPING}


class Conflict(Exception):
    """The trace changes a mapping while jobs run; most passes over memory leave it as it is, and say so."""


@dataclass
class Memory:
    """See the module's text.

    Attributes:
        trace: what the model was gathered from; its slots and its profile are the model's too.
        prologue, stream: every action that is not about memory, before and after REPLAY_START.
        mappings: what virtual pages map to.
        pages: by frame; of the mapped ones at least those of which anything is known.
        cpu_writes: what the CPU writes between jobs.
        carveout_bytes: size of the carve-out.
    """

    trace: Trace
    prologue: Actions
    stream: Actions
    mappings: Mappings = field(default_factory=lambda: Mappings.of(()))
    pages: Pages = field(default_factory=Pages)
    cpu_writes: list[CpuWrite] = field(default_factory=list)
    carveout_bytes: int = 0
    _frames: tuple[Mappings, frozenset[int]] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, trace: Trace) -> Memory:
        """Gather the memory of a trace.

        Raises:
            Conflict: a virtual page is mapped to two frames.
        """
        actions = trace.actions
        columns = Columns(actions)
        if columns.is_op(*_STRANGERS).any():
            raise Conflict("it has actions on memory that the memory model does not know")
        start = _first(columns.is_op(Op.REPLAY_START), len(actions))
        begin = start if start < len(actions) else 0  # jobs of the prologue come after all that is filled there
        first_job = begin + _first(columns.is_op(Op.JOB)[begin:], len(actions) - begin)
        other = ~columns.is_op(*_INITIAL, *_MAPPING, Op.REPLAY_START)
        in_prologue = np.arange(len(actions)) < start
        memory = cls(trace, actions[other & in_prologue], actions[other & ~in_prologue])
        memory.carveout_bytes = trace.carveout_bytes
        position = np.cumsum(other) - len(memory.prologue)
        runs: list[MapRun] = []
        at = np.flatnonzero(columns.is_op(*_INITIAL, *_MAPPING))
        joins = (at < first_job) & (np.diff(at < start, prepend=False) == 0)
        for index, row in joined(actions, at, joins):
            if row.op == Op.MAP_GPU_MEM:
                runs.append((row.address_space, row.va_page, row.frame, row.flags, row.pages))
            elif row.op == Op.UNMAP_GPU_MEM:
                if index < first_job:
                    # later ones are left out: memory that stays mapped harms no job
                    memory._map(runs)
                    memory.mappings = memory.mappings.without(row.address_space, row.va_page, row.pages)
                    runs = []
            elif index < first_job:
                memory._fill(row, state=index < start < len(actions))
            else:
                memory.cpu_writes.append(CpuWrite(int(position[index]), row.target, memory._data(row).tobytes()))
        memory._map(runs)
        memory._take_image()
        return memory

    def _map(self, runs: list[MapRun]) -> None:
        try:
            self.mappings = Mappings.of([*self.mappings.runs(), *runs])
        except ValueError as error:
            space, page = error.args
            raise Conflict(f"virtual page {page:#x} of address space {space} is mapped twice") from None

    def _data(self, row: Action) -> NDArray[np.uint8]:
        """What an UPLOAD or a CLEAR writes."""
        if row.op == Op.CLEAR:
            return np.zeros(row.bytes, np.uint8)
        return np.frombuffer(self.trace.image, np.uint8)[row.source : row.source + row.bytes]

    def _fill(self, row: Action, state: bool) -> None:
        data = self._data(row) if row.op == Op.UPLOAD else None
        begin = min(-row.target % PAGE_BYTES, row.bytes)
        whole = (row.bytes - begin) // PAGE_BYTES * PAGE_BYTES  # bytes of whole pages
        dense = iter(() if data is None else dense_pages(data[begin : begin + whole]))
        for frame, inside, part in pieces(row.target, row.bytes):
            content = None if data is None else data[part]
            if inside.stop - inside.start == PAGE_BYTES and not state:
                self.pages[frame].put_whole(content, next(dense, False))
            else:
                self.pages[frame].put(inside, 0 if content is None else content)
                self.pages[frame].keep(inside, state)

    def _take_image(self) -> None:
        """Keep what is mapped, and let whole pages of the image lie there."""
        self.cpu_writes = [item for item in self.cpu_writes if item.to // PAGE_BYTES in self.frames]
        image = np.frombuffer(self.trace.image, np.uint8)
        for frame in self.frames & set(range(len(image) // PAGE_BYTES)):
            self.pages[frame].lie_in_image(image[frame * PAGE_BYTES : (frame + 1) * PAGE_BYTES])
        self._keep_known()

    @property
    def frames(self) -> frozenset[int]:
        """All frames that are mapped."""
        if self._frames is None or self._frames[0] is not self.mappings:
            self._frames = self.mappings, frozenset(self.mappings.frames.tolist())
        return self._frames[1]

    def _keep_known(self) -> None:
        """Keep pages that are mapped and of which something is known, sorted."""
        mapped = self.frames
        known = [
            item for item in self.pages.items() if item[0] in mapped and (item[1].in_image or not item[1].is_blank)
        ]
        self.pages = Pages(sorted(known, key=itemgetter(0)))

    def slot_frames(self, *kinds: SlotKind, bound: bool = False) -> set[int]:
        """Frames that hold slots of these kinds, or of these kinds and with a recorded value.

        Raises:
            SlotError: some of a slot is not mapped.
        """
        return self.frames_of(s for s in self.trace.slots if s.kind in kinds and (s.bound or not bound))

    def frames_of(self, slots: Iterable[Slot]) -> set[int]:
        """Frames that hold slots.

        Raises:
            SlotError: some of a slot is not mapped.
        """
        found = set()
        for slot in slots:
            try:
                at = self.mappings.find(slot.address_space, pages_of(slot.address, slot.span))
            except KeyError as error:
                _, va = error.args[0]
                message = f"slot {slot.name} is not mapped at GPU address {va * PAGE_BYTES:#x}"
                raise SlotError(message) from None
            found.update(self.mappings.frames[at].tolist())
        return found

    def cpu_written_frames(self) -> set[int]:
        """Frames that the CPU writes between jobs."""
        return {frame for item in self.cpu_writes for frame in item.frames}

    def written_frames(self) -> set[int]:
        """Frames that cannot lie in the image: a job, the CPU, an operator or a caller may write them.

        Those of outputs are among them, though no job may write one: devices copy nothing out of the image.
        """
        by_gpu = set(self.mappings.where(self.mappings.flags & MAP_WRITE != 0).frames.tolist())
        copied = [s for s in self.trace.slots if s.kind != SlotKind.INTERNAL]
        by_operators = operators.written(np.concatenate([self.prologue, self.stream]), self.trace.slots)
        # Where jobs run in the prologue, constants are filled there too; other state somebody writes.
        state = set() if self.prepares else {frame for frame, page in self.pages.items() if page.has_state}
        return by_gpu | self.cpu_written_frames() | self.frames_of([*copied, *by_operators]) | state

    def in_image(self) -> set[int]:
        """Frames that are mapped where the image has them."""
        return {frame for frame, page in self.pages.items() if page.in_image}

    def behaviour(self) -> bytes:
        """A digest of what jobs do and find, leaving out permissions: equal digests, equal accesses."""
        digest = hashlib.sha256(self.prologue.tobytes() + self.stream.tobytes())
        digest.update(self.mappings.keys.tobytes() + self.mappings.frames.tobytes())
        digest.update(repr([(x.before, x.to, x.data) for x in self.cpu_writes]).encode())
        for frame, page in sorted(self.pages.items()):
            if not page.is_blank:
                digest.update(frame.to_bytes(8) + page.digest())
        return digest.digest()

    def copy(self) -> Memory:
        """A copy whose pages can be moved; their arrays are shared."""
        return replace(
            self,
            pages=Pages({frame: replace(page) for frame, page in self.pages.items()}),
            cpu_writes=[replace(item) for item in self.cpu_writes],
        )

    def move(self, target: dict[int, int]) -> None:
        """Give every frame the number that `target` says."""
        moved = [target[frame] for frame in self.mappings.frames.tolist()]
        self.mappings = self.mappings.with_(frames=np.array(moved, np.int64))
        self.pages = Pages({target[frame]: page for frame, page in self.pages.items()})
        for frame, page in self.pages.items():
            page.frame = frame
        for item in self.cpu_writes:
            # A write of the CPU crosses no page border: the recorder cuts them there.
            item.to = target[item.to // PAGE_BYTES] * PAGE_BYTES + item.to % PAGE_BYTES

    def stretches(self) -> Iterator[slice]:
        """Parts of prologue and stream, one after the other, that no action on memory interrupts."""
        at = self._tables_at()
        ends = [at] if len(self.mappings) else []
        first = len(self.prologue)
        ends += [first, *(first + item.before for item in self.cpu_writes), first + len(self.stream)]
        begin = 0
        for end in ends:
            yield slice(begin, end)
            begin = end

    def drop(self, dropped: Mask) -> None:
        """Leave out actions, marked in prologue and stream as one array."""
        first = len(self.prologue)
        kept = np.concatenate(([0], np.cumsum(~dropped[first:])))
        for item in self.cpu_writes:
            item.before = int(kept[item.before])
        self.prologue = self.prologue[~dropped[:first]]
        self.stream = self.stream[~dropped[first:]]

    def packing(self, *, aligned: bool = False) -> Packing:
        """The image, and what fills memory.

        Args:
            aligned: as `Packing`.

        Raises:
            ManifestError: a carve-out cannot be that large.
        """
        needed = (max(self.frames, default=0) + 1) * PAGE_BYTES
        if needed > MAX_CARVEOUT_BYTES:
            raise ManifestError(
                "the trace needs too much memory", expected=f"at most {MAX_CARVEOUT_BYTES} bytes", found=needed
            )
        return Packing(self.pages, self.cpu_writes, exact=self.prepares, aligned=aligned)

    @property
    def prepares(self) -> bool:
        """Whether jobs run in the prologue."""
        return bool(Columns(self.prologue).is_op(Op.JOB).any())

    def settle(self, carveout_bytes: int | None = None) -> Packing:
        """Bring the model into the state in which it would be read again from the trace that it stands for.

        Where the image has grown over pages that do not lie in it, they all move up, by whole blocks of a page
        table: what lies in the image when the trace is read again must be what lies there now.

        Raises:
            ManifestError: a carve-out cannot be that large.
        """
        self.carveout_bytes = carveout_bytes or self.carveout_bytes
        self._keep_known()
        self.cpu_writes.sort(key=lambda item: item.before)
        packing = self.packing()
        in_image = self.in_image()
        covered = self._covered(packing)
        if covered > 0:
            by = -(-covered // BLOCK_PAGES) * BLOCK_PAGES
            self.move({frame: frame + (0 if frame in in_image else by) for frame in self.frames})
            self.carveout_bytes += by * PAGE_BYTES
            packing = self.packing()
        partly = [page for page in self.pages.values() if not page.all_live]  # of others, all is filled
        for page in partly:
            page.settle(packing.filled(page.frame))
        if any(page.is_blank for page in partly):
            self._keep_known()
        self.cpu_writes = [item for item in self.cpu_writes if item.to // PAGE_BYTES in self.frames]
        return packing

    def _covered(self, packing: Packing) -> int:
        """How many pages of the image reach over memory that does not lie in it; or 0 or less."""
        return packing.image_pages - min(self.frames - self.in_image(), default=packing.image_pages)

    def emit(self, packing: Packing | None = None, *, sheet: bool = False, to_run: bool = False) -> Trace:
        """The trace that this model stands for.

        Args:
            packing: what `settle` returned, if nothing has been changed since.
            sheet: make the image a view of a sheet.
            to_run: let uploads lie in the sheet's pages as in memory's, so that a replay can share them.

        Raises:
            ManifestError: a carve-out cannot be that large.
        """
        packing = packing or self.settle()
        if to_run and self._covered(aligned := self.packing(aligned=True)) <= 0:
            packing = aligned
        cpu_writes = packing.cpu_writes()
        rows = [
            *self._prologue(packing.state_fills()),
            array_of([action(Op.REPLAY_START), *packing.fills()]),
            *self._stream(cpu_writes),
        ]
        return self.trace.with_(
            actions=np.concatenate(rows),
            image=packing.sheet() if sheet or to_run else packing.image(),
            carveout_bytes=self.carveout_bytes,
            raw=False,
        )

    def _tables_at(self) -> int:
        """Where in the prologue the first page table is set."""
        return _first(Columns(self.prologue).is_op(Op.SET_GPU_PGTABLE), len(self.prologue))

    def _prologue(self, fills: list[Action]) -> list[Actions]:
        """Maps go before the page table is set, so that the GPU never sees it half made."""
        at = self._tables_at()
        memory = [*map_actions(self.mappings.runs()), *fills]
        return [self.prologue[:at], array_of(memory), self.prologue[at:]]

    def _stream(self, cpu_writes: list[tuple[int, Action]]) -> Iterator[Actions]:
        at = 0
        for before, several in groupby(cpu_writes, key=itemgetter(0)):
            yield self.stream[at:before]
            yield array_of([row for _, row in several])
            at = before
        yield self.stream[at:]


def _first(mask: Mask, default: int) -> int:
    found = np.flatnonzero(mask)
    return int(found[0]) if len(found) else default
