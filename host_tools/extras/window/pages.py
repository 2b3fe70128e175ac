# SPDX-License-Identifier: BSD-2-Clause
"""The window's pages, made of a session: each is whole, so that a step is a link, and all text is escaped.

What a trace says is anyone's text. Pages load nothing from elsewhere, and pictures are a part of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from host_tools.accesses import data_flow
from host_tools.accesses.job_buffers import Digest
from host_tools.audit.report import facts, words
from host_tools.extras.window import values
from host_tools.extras.window.operands import Operand
from host_tools.extras.window.picture import Layout
from host_tools.extras.window.server import CSS, JS, TEXT, Page
from host_tools.extras.window.session import Session, Subject
from host_tools.extras.window.values import Shown, View
from host_tools.support.html import environment
from trace_format.errors import GramophoneError

HERE = Path(__file__).parent
FILES = {"window.css": CSS, "window.js": JS}
AROUND = 200  # jobs before and after the current one that the list shows
MOST_LINES = 4000  # of a shader
REPORT_POLICY = "frame-ancestors 'none'"  # the report has a stricter one in itself


class _NotThere(Exception):
    """There is no such page."""


@dataclass(frozen=True)
class Tensor:
    """An operand as a page shows it: its title, where it is from, and its numbers."""

    title: str
    origin: str
    job: int | None
    address: int
    bytes: int
    shown: Shown


@dataclass(frozen=True)
class Both:
    """What a job of each trace wrote, and the difference; None: no such tensor, or nothing to subtract."""

    one: Tensor | None
    other: Tensor | None
    difference: Shown | None
    different: int | None
    largest: float | None


class Pages:
    """Answers of the server."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.up = "./"  # from the page that is made to the first
        self.templates = environment(HERE)
        self.templates.filters["hex"] = lambda value: f"{value:#010x}"
        self.templates.filters["size"] = words.size
        self.templates.filters["number"] = lambda value: f"{value:,}"
        self.templates.filters["short"] = lambda value: "none" if value is None else f"{value:.6g}"

    def answer(self, path: str, query: Mapping[str, str]) -> Page:
        """The page at a path."""
        self.up = "../" * path.count("/") or "./"
        try:
            return self._page(path, query)
        except _NotThere:
            return Page("There is no such page.\n", TEXT, status=HTTPStatus.NOT_FOUND)
        except GramophoneError as error:
            return self._render("problem.html", View(), problem=str(error))

    def _page(self, path: str, query: Mapping[str, str]) -> Page:
        view = view_of(query)
        match path.split("/"):
            case [""]:
                return self._render("overview.html", view, subject=self.session.subject)
            case [name] if name in FILES:
                return Page((HERE / name).read_text(encoding="utf-8"), FILES[name])
            case ["report"]:
                return Page(self.session.subject.report, policy=REPORT_POLICY)
            case ["job", number]:
                return self._job(_number(number, len(self.session.subject.facts.jobs)), view)
            case ["compare"] if self.session.other:
                return self._render("compare.html", view, pairs=self.session.pairs)
            case ["compare", number] if self.session.other:
                return self._pair(_number(number, len(self.session.pairs)), view)
        raise _NotThere

    def _render(self, template: str, view: View, **values: Any) -> Page:
        given = {name: value for name, value in asdict(view).items() if value != getattr(View(), name)}
        session = self.session
        shared = {
            "report": session.subject.facts,
            "other": session.other and session.other.facts,
            "up": self.up,
            "view": view,
            "query": f"?{urlencode(given)}" if given else "",
            "called": called,
            "at": None,
            "near": near,
            "types": values_types(),
        }
        return Page(self.templates.get_template(template).render(**shared | values))

    def _job(self, number: int, view: View) -> Page:
        subject = self.session.subject
        job = subject.facts.jobs[number]
        read: list[Tensor] = []
        written: list[Tensor] = []
        more, problem = (0, 0), ""
        try:
            found = subject.operands(number)
            codes = {subject.facts.shaders[shader].address for shader in job.shaders}
            data = [operand for operand in found.read if operand.address not in codes]
            data.sort(key=lambda operand: operand.origin not in (data_flow.JOB, data_flow.SLOT))
            read = [tensor(subject, operand, view) for operand in data]
            written = [tensor(subject, operand, view) for operand in found.written]
            more = found.more_read, found.more_written
        except GramophoneError as error:
            problem = str(error)
        shaders = [(shader, subject.facts.shaders[shader]) for shader in job.shaders]
        return self._render(
            "job.html", view, at=number, job=job, read=read, written=written, more=more, problem=problem,
            shaders=shaders, most_lines=MOST_LINES,
        )  # fmt: skip

    def _pair(self, number: int, view: View) -> Page:
        pair = self.session.pairs[number]
        assert self.session.other is not None
        rows = both(
            _written(self.session.subject, pair.one), _written(self.session.other, pair.other),
            (self.session.subject, self.session.other), view,
        )  # fmt: skip
        return self._render("pair.html", view, at=number, pair=pair, pairs=self.session.pairs, rows=rows)


def values_types() -> Sequence[str]:
    """Element types that the user can choose."""
    return tuple(values.TYPES)


def _number(text: str, count: int) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or int(text) >= count:
        raise _NotThere
    return int(text)


def view_of(query: Mapping[str, str]) -> View:
    """What a query asks for; what is missing or out of range is as it is without it."""

    def whole(name: str, least: int, most: int, otherwise: int) -> int:
        text = query.get(name, "")
        good = text.isascii() and text.isdecimal() and len(text) < 12 and least <= int(text) <= most
        return int(text) if good else otherwise

    dtype = query.get("dtype", "")
    return View(
        dtype if dtype in values.TYPES else "",
        whole("width", 0, 1024, 0),
        whole("packed", 1, 64, 1),
        whole("first", 0, 1 << 32, 0),
    )


def near(count: int, at: int | None) -> range:
    """Which of some jobs a list shows."""
    start = max(0, (at or 0) - AROUND)
    return range(start, min(count, start + 2 * AROUND))


def called(report: facts.Report, job: int) -> str:
    """A job for people: its number, and its layer or kind."""
    found = report.jobs[job]
    return f"{job} {found.name or found.kind}"


def tensor(subject: Subject, operand: Operand, view: View) -> Tensor:
    """An operand, its numbers as the user wants to see them."""
    slots = [subject.facts.slots[number] for number in operand.slots]
    slot = slots[0] if len(slots) == 1 and slots[0].bytes == operand.size else None
    dtype = view.dtype or (slot.dtype if slot and slot.dtype in values.TYPES else "float32")
    if operand.size % np.dtype(values.TYPES[dtype]).itemsize:
        dtype = "uint8"
    planar = slot is not None and len(slot.shape) > 1 and not view.width and view.packed == 1
    shape = tuple(slot.shape) if slot and planar else ()
    found = values.numbers(operand.data, dtype)
    total = operand.size // np.dtype(values.TYPES[dtype]).itemsize
    names = ", ".join(f"{one.kind} {one.name}" for one in slots[:3]) + (", .." if len(slots) > 3 else "")
    return Tensor(
        names or ("memory" if operand.origin != data_flow.TRACE else "data of the trace"),
        _origin(subject, operand),
        operand.number if operand.origin == data_flow.JOB else None,
        operand.address,
        operand.size,
        values.shown(found, dtype, total, Layout(shape, view.width, view.packed), view.first),
    )


def _origin(subject: Subject, operand: Operand) -> str:
    match operand.origin:
        case data_flow.JOB:
            return f"written by job {called(subject.facts, operand.number)}"
        case data_flow.SLOT:
            name = subject.facts.slots[operand.number].name
            return f"copied from slot {name}: {subject.origins.get(name, 'computed')}"
        case data_flow.TRACE:
            return "in the trace: constants, weights or arguments"
        case data_flow.CLEARED:
            return "cleared by the trace"
    return "written by nobody"


def _written(subject: Subject, digest: Digest | None) -> list[Operand]:
    return [] if digest is None else subject.operands(digest.job).written


def both(one: list[Operand], other: list[Operand], subjects: tuple[Subject, Subject], view: View) -> list[Both]:
    """What two jobs wrote, side by side."""
    found = []
    for number in range(max(len(one), len(other))):
        a, b = (side[number] if number < len(side) else None for side in (one, other))
        pair = [
            None if item is None else tensor(subject, item, view)
            for item, subject in zip((a, b), subjects, strict=True)
        ]
        difference = different = largest = None
        if a is not None and b is not None and a.size == b.size and pair[0] and pair[1]:
            dtype = pair[0].shown.dtype
            layout = Layout((), view.width, view.packed)
            x, y = (values.numbers(item.data, dtype) for item in (a, b))
            with np.errstate(invalid="ignore"):
                gap = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, x - y)
            difference = values.shown(gap, dtype, pair[0].shown.total, layout, view.first)
            different = int(np.count_nonzero(np.frombuffer(a.data, np.uint8) != np.frombuffer(b.data, np.uint8)))
            finite = np.abs(gap[np.isfinite(gap)])
            largest = float(finite.max()) if len(finite) else None
        found.append(Both(pair[0], pair[1], difference, different, largest))
    return found
