# SPDX-License-Identifier: BSD-2-Clause
"""Several traces as one joint trace.

Nothing ever writes to an image, so images become one in which pages of equal content are there once. Nor to
resident pieces of streamed traces: those of equal content are there once, and are read once. What networks write,
and pieces that are read again, lie in memory of one network, unless networks are exclusive.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.model.parts import NOTES, SEPARATOR, image_pages
from host_tools.support.pages import pieces
from trace_format import networks
from trace_format.actions import Action, Actions, Columns, Op, action, array_of, rewritten
from trace_format.errors import GramophoneError
from trace_format.network import Network
from trace_format.operands import Type
from trace_format.schema import MAX_CARVEOUT_BYTES, MAX_NETWORKS, MAX_PIECES, PAGE_BYTES
from trace_format.slots import Slot
from trace_format.streamed import Piece, in_order, read_only_end
from trace_format.trace import Trace

_TEXT_BYTES = {"recorder": 32, "kernel": 64, "driver": 64, "framework": 64}
_NAME_BYTES = 32  # of slots and networks


class JoinError(GramophoneError):
    """Traces that cannot be joined."""


@dataclass(frozen=True)
class Joining:
    """A trace that becomes a network, and what its row says besides places.

    Attributes:
        name: of the network.
        trace: what it does.
        predicted_us, longest_job_us, period_us, priority: as in `Network`.
    """

    name: str
    trace: Trace
    predicted_us: int = 0
    longest_job_us: int = 0
    period_us: int = 0
    priority: int = 0


@dataclass(frozen=True)
class Joint:
    """A joint trace, and what joining saved.

    Attributes:
        trace: it.
        image_pages: pages of all images, before they became one.
        shared_pages: of these, those that were there already, zero pages among them.
    """

    trace: Trace
    image_pages: int
    shared_pages: int


def joint(rows: Sequence[Joining], name: str, *, exclusive: bool = False) -> Joint:
    """Make several traces one.

    Args:
        rows: them, with distinct names.
        name: of the joint trace.
        exclusive: all get the same working memory, so no two can be interleaved.

    Raises:
        JoinError: too many or too few, names, traces that are raw or joint, different GPUs or chips, no room.
        TraceError: together they break a rule of the format.
    """
    _check(rows)
    image, places, pages = _image([row.trace for row in rows])
    streamed = _resident(rows, places, len(image) // PAGE_BYTES)
    image_pages = first_page = read_only_end(streamed, len(image))
    found: list[Network] = []
    parts: list[Actions] = []
    slots: list[Slot] = []
    begin = jobs = 0
    for row, page_at in zip(rows, places, strict=True):
        trace = row.trace
        own_pages = trace.carveout_bytes // PAGE_BYTES - len(page_at)
        moved = _moved(trace, page_at, first_page, len(slots), jobs)
        start = int(np.flatnonzero(moved["op"] == Op.REPLAY_START)[0])
        manifest = Trace.META_DEFAULTS | trace.meta
        found.append(
            Network(
                row.name,
                *(begin, begin + start, begin + len(moved)),
                *(len(slots), len(trace.slots)),
                *(first_page, own_pages),
                exclusive,
                *(row.predicted_us, row.longest_job_us, row.period_us, row.priority),
                *(manifest["retry_limit"], manifest["time_budget_us"]),
                _reached(page_at, image_pages),
            )
        )
        streamed += _passing(trace, first_page - len(page_at), jobs)
        begin += len(moved)
        jobs += trace.jobs
        slots += [replace(slot, name=_slot_name(row.name, slot.name)) for slot in trace.slots]
        parts.append(moved)
        if not exclusive:
            first_page += own_pages
    end_page = max(network.end_page for network in found)
    if end_page * PAGE_BYTES > MAX_CARVEOUT_BYTES:
        raise JoinError(
            f"together they need {end_page * PAGE_BYTES} bytes of memory: a trace has at most {MAX_CARVEOUT_BYTES}"
        )
    trace = Trace(
        gpu=rows[0].trace.gpu,
        actions=np.concatenate(parts),
        image=image,
        carveout_bytes=end_page * PAGE_BYTES,
        va_bytes=max(row.trace.va_bytes for row in rows),
        slots=slots,
        meta=_meta(rows, name),
        notes={NOTES: {row.name: row.trace.notes for row in rows}},
        networks=found,
        streamed=in_order(streamed),
    )
    if len(streamed) > MAX_PIECES:
        raise JoinError(f"together they have {len(streamed)} pieces: a trace has at most {MAX_PIECES}")
    trace.check()
    return Joint(trace, pages, pages - len(image) // PAGE_BYTES)


def differences(whole: Trace, network: Network, own: Trace) -> list[str]:
    """How a network of a joint trace differs from the trace that it is said to be: what its owner wants to know.

    The other networks are not looked at: `reach.reached` says what they reach.

    Args:
        whole: the joint trace.
        network: of it.
        own: the owner's trace.

    Returns:
        In words; none: each action, page of the image, slot and limit of a replay is the owner's.

    Raises:
        JoinError: the owner's trace is none that can be joined.
    """
    _check_one(Joining(network.name, own))
    found = []
    if whole.gpu != own.gpu:
        found.append(f"it is for another GPU: expected {own.gpu}, found {whole.gpu}")
    pages_at = image_pages(whole.image)
    pages = {page: at for at, page in enumerate(pages_at)}
    own_pages = image_pages(own.image)
    missing = [at for at, page in enumerate(own_pages) if page not in pages]
    if missing:
        return [
            *found,
            f"{len(missing)} of {len(own_pages)} pages of the image are missing, the first at {missing[0]}",
        ]
    page_at = np.array([pages[page] for page in own_pages], np.int64)
    stay = {bytes(piece.data): piece for piece in whole.streamed if piece.resident}
    for piece in _staying(own):
        if bytes(piece.data) not in stay:
            return [*found, f"the resident piece at page {piece.page} is missing"]
        first = stay[bytes(piece.data)].page
        page_at = np.concatenate([page_at, np.arange(first, first + piece.pages)])
    jobs = int(np.count_nonzero(whole.actions["op"][: network.first_action] == Op.JOB))
    expected = _moved(own, page_at, network.first_page, network.first_slot, jobs)
    actions = whole.actions[network.first_action : network.end_action]
    if len(actions) != len(expected):
        found.append(f"expected {len(expected)} actions, found {len(actions)}")
    else:
        other = np.flatnonzero(actions != expected)
        found += [
            f"action {at} is another: expected {expected[at]}, found {actions[at]}" for at in other[:1].tolist()
        ]
    found += _other_pieces(whole, network, own, stay, network.first_page - len(page_at), jobs)
    if network.image != _reached(page_at, read_only_end(whole.streamed, len(whole.image))):
        found.append("it reaches other pages of the image")
    slots = [replace(slot, name=_slot_name(network.name, slot.name)) for slot in own.slots]
    if slots != list(whole.slots[network.first_slot : network.end_slot]):
        found.append("its slots are others")
    meta, joint_meta = Trace.META_DEFAULTS | own.meta, Trace.META_DEFAULTS | whole.meta
    own_bytes = own.carveout_bytes - len(page_at) * PAGE_BYTES
    found += [
        f"{what}: expected {wanted}, found {seen}"
        for what, wanted, seen in (
            ("bytes of working memory", own_bytes, network.page_count * PAGE_BYTES),
            ("retries", meta["retry_limit"], network.retry_limit),
            ("time budget in microseconds", meta["time_budget_us"], network.time_budget_us),
        )
        if wanted != seen
    ]
    if joint_meta["security_version"] < meta["security_version"]:
        found.append(
            f"the joint trace is older: expected security version {meta['security_version']} or above, "
            f"found {joint_meta['security_version']}"
        )
    return found


def _other_pieces(
    whole: Trace, network: Network, own: Trace, stay: Mapping[bytes, Piece], delta: int, jobs: int
) -> list[str]:
    """As `differences`, for pieces.

    Args:
        stay: resident pieces of the whole trace, by content.
        delta: pages between a piece's places in both traces.
        jobs: number of the network's first job in the whole trace.
    """
    end = jobs + own.jobs
    found = [
        f"the resident piece at page {piece.page} is read too late"
        for piece in _staying(own)
        if stay[bytes(piece.data)].first_job > piece.first_job + jobs
    ]
    theirs = [
        piece
        for piece in whole.streamed
        if not piece.resident
        and network.first_page <= piece.page < network.end_page
        and piece.from_job < end
        and piece.last_job >= jobs
    ]
    if theirs != in_order(_passing(own, delta, jobs)):
        found.append("its pieces are others")
    return found


def _check(rows: Sequence[Joining]) -> None:
    if not 2 <= len(rows) <= MAX_NETWORKS:
        raise JoinError(f"expected 2 to {MAX_NETWORKS} traces, found {len(rows)}")
    names = [row.name for row in rows]
    for row in rows:
        if names.count(row.name) > 1:
            raise JoinError(f"{names.count(row.name)} networks are called {row.name!r}: expected other --names")
        _check_one(row)
        if row.trace.gpu != rows[0].trace.gpu:
            raise JoinError(f"{row.name} is for another GPU: expected {rows[0].trace.gpu}, found {row.trace.gpu}")


def _check_one(row: Joining) -> None:
    if not 0 < len(row.name.encode()) <= _NAME_BYTES or "\0" in row.name:
        raise JoinError(f"a network's name has 1 to {_NAME_BYTES} bytes, and {row.name!r} has not (--names)")
    if row.trace.raw:
        raise JoinError(f"{row.name} is a raw recording: expected what `gramophone build` makes of it")
    if row.trace.networks:
        raise JoinError(f"{row.name} is a joint trace: expected the traces that it was made of")


def _image(traces: Sequence[Trace]) -> tuple[bytes, list[NDArray[np.int64]], int]:
    """One image, where each trace's pages are in it, and how many these are together."""
    index: dict[bytes, int] = {}
    content: list[bytes] = []
    places = []
    for trace in traces:
        own = []
        for page in image_pages(trace.image):
            key = hashlib.sha256(page).digest()
            if key not in index:
                index[key] = len(content)
                content.append(page)
            own.append(index[key])
        places.append(np.array(own, np.int64))
    return b"".join(content), places, sum(map(len, places))


def _resident(rows: Sequence[Joining], places: list[NDArray[np.int64]], page: int) -> list[Piece]:
    """Resident pieces of all traces, those of equal content once, from a page on; adds their pages to `places`."""
    found: dict[bytes, Piece] = {}
    last = sum(row.trace.jobs for row in rows) - 1
    jobs = 0
    for index, row in enumerate(rows):
        end = len(places[index])
        for piece in _staying(row.trace):
            if piece.page != end:
                raise JoinError(f"{row.name} has pages between its resident pieces: expected none at page {end}")
            end = piece.end_page
            data = bytes(piece.data)
            if data not in found:
                found[data] = replace(piece, page=page, first_job=piece.first_job + jobs, last_job=last)
                page += piece.pages
            here = np.arange(piece.pages) + found[data].page
            places[index] = np.concatenate([places[index], here])
        jobs += row.trace.jobs
    return list(found.values())


def _staying(trace: Trace) -> list[Piece]:
    """Resident pieces as they lie in memory."""
    return sorted((piece for piece in trace.streamed if piece.resident), key=lambda piece: piece.page)


def _passing(trace: Trace, delta: int, jobs: int) -> list[Piece]:
    """Pieces that are read again, moved by `delta` pages and `jobs` jobs."""
    return [
        Piece(piece.page + delta, piece.from_job + jobs, piece.first_job + jobs, piece.last_job + jobs, piece.data)
        for piece in trace.streamed
        if not piece.resident
    ]


def _moved(trace: Trace, page_at: NDArray[np.int64], first_page: int, first_slot: int, jobs: int) -> Actions:
    """The actions of a trace, in a joint one; a ReplayStart is put in front where there is none."""
    delta = first_page - len(page_at)
    frames = np.concatenate([page_at, np.arange(len(page_at), trace.carveout_bytes // PAGE_BYTES) + delta])
    rows = rewritten(trace.actions, lambda x: x + first_slot, Type.SLOT)
    rows = rewritten(rows, lambda x: x + jobs, Type.NUMBER)
    rows = rewritten(rows, lambda x: x + delta * PAGE_BYTES, Type.TARGET)
    columns = Columns(rows)
    changed: list[Actions] = []
    begin = 0
    for at in np.flatnonzero(columns.is_op(Op.MAP_GPU_MEM, Op.UPLOAD)).tolist():
        row = Action.of(rows[at])
        cut = _mapped(row, frames) if row.op == Op.MAP_GPU_MEM else _uploaded(row, page_at)
        changed += [rows[begin:at], array_of(cut)]
        begin = at + 1
    rows = np.concatenate([*changed, rows[begin:]])
    if not (rows["op"] == Op.REPLAY_START).any():
        rows = np.concatenate([array_of([action(Op.REPLAY_START)]), rows])
    return rows


def _mapped(row: Action, frames: NDArray[np.int64]) -> Iterator[Action]:
    """A mapping as as many as its frames have runs."""
    own = frames[row.frame : row.frame + row.pages]
    begins = [0, *(np.flatnonzero(np.diff(own) != 1) + 1).tolist(), len(own)]
    for begin, end in pairwise(begins):
        yield row.with_(va_page=row.va_page + begin, pages=end - begin, frame=int(own[begin]))


def _uploaded(row: Action, page_at: NDArray[np.int64]) -> Iterator[Action]:
    """An upload as as many as its source has runs."""
    source = target = size = -1
    for page, inside, done in pieces(row.source, row.bytes):
        here = int(page_at[page]) * PAGE_BYTES + inside.start
        if size > 0 and source + size == here:
            size += done.stop - done.start
            continue
        if size > 0:
            yield row.with_(source=source, target=target, bytes=size)
        source, target, size = here, row.target + done.start, done.stop - done.start
    yield row.with_(source=source, target=target, bytes=size)


def _reached(page_at: NDArray[np.int64], image_pages: int) -> tuple[tuple[int, int], ...]:
    """A network's pages of the image, of which it has these."""
    is_in = np.zeros(image_pages, np.bool_)
    is_in[page_at] = True
    return networks.ranges_of(is_in)


def _slot_name(network: str, slot: str) -> str:
    name = network + SEPARATOR + slot
    if len(name.encode()) > _NAME_BYTES:
        raise JoinError(
            f"slot {name!r} would have a name of {len(name.encode())} bytes: expected at most {_NAME_BYTES}; "
            "a shorter name for the network (--names) helps"
        )
    return name


def _meta(rows: Sequence[Joining], name: str) -> dict[str, Any]:
    """The manifest: as strict as the strictest of them, with as much as each is allowed."""
    metas = [Trace.META_DEFAULTS | row.trace.meta for row in rows]
    low, high = max(m["revision_min"] for m in metas), min(m["revision_max"] for m in metas)
    if low > high:
        raise JoinError("they were made for different revisions of the GPU")
    mask = 0
    for meta in metas:
        mask |= meta["core_mask"]
    found: dict[str, Any] = {
        "name": name,
        "source_hash": hashlib.sha256(b"".join(m["source_hash"] for m in metas)).digest(),
        "security_version": max(m["security_version"] for m in metas),
        "revision_min": low,
        "revision_max": high,
        "core_mask": mask,
        "time_budget_us": max(m["time_budget_us"] for m in metas),
        "retry_limit": max(m["retry_limit"] for m in metas),
    }
    for key, size in _TEXT_BYTES.items():
        text = "; ".join(dict.fromkeys(m[key] for m in metas))
        found[key] = text.encode()[:size].decode(errors="ignore")
    return found
