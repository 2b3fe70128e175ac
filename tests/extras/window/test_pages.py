# SPDX-License-Identifier: BSD-2-Clause
"""Pages of honest and of hostile traces: what they say, what they leave out, and that all text stays text."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from http import HTTPStatus

import numpy as np
import pytest

from host_tools.extras.window import operands
from host_tools.extras.window.pages import AROUND, Pages, near, view_of
from host_tools.extras.window.values import View
from tests.support.small_jobs import BYTES, DOUBLE_TWICE, INPUT, OUTPUT, SCRATCH, small
from tests.support.window import pages
from trace_format.actions import Op, action, actions_of, array_of
from trace_format.schema import DType
from trace_format.trace import Trace

EVILS = {  # what fits into a field of the manifest
    "script": "<script>document.title=1</script",
    "quotes": '"\' onmouseover=alert(1) x="',
    "image": "<img src=x onerror=alert(1)>",
    "comment": "--><!--</title></style>",
    "template": "{{7*7}}{% raw %}",
    "entity": "&lt;b&gt;&#x3c;script&#x3e;",
    "control": "a\x1b]0;x\x07\r\nb\x9b2J",
    "order": "\u202etxt.exe\u2066",
    "address": "javascript:alert(1)",
    "long": "n" * 32,
}
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 3e38, -3e38, 1e-45], "<f4")


def named(evil: str) -> Trace:
    """A trace whose every text is hostile."""
    trace = small(*DOUBLE_TWICE)
    slots = [replace(slot, name=f"{number}{evil}"[:28]) for number, slot in enumerate(trace.slots)]
    found = trace.with_(
        meta=dict.fromkeys(("name", "recorder", "kernel", "driver", "framework"), evil), slots=slots
    )
    found.notes["calls"] = [evil, f"second {evil}"]
    return found


def hostile() -> Trace:
    """The worst of them."""
    return named(EVILS["script"])


def numbers(values: np.ndarray) -> Pages:
    """A trace of which an input has these numbers."""
    trace = small(*DOUBLE_TWICE)
    slot = trace.slots[0]
    data = np.resize(values, BYTES // values.itemsize).view(slot.numpy_dtype).reshape(slot.shape)
    return pages(trace, values={slot.name: data})


class Read(HTMLParser):
    """Elements of a page, their attributes and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def check_safe(body: str) -> Read:
    """Only the page's own elements, no handler, nothing from elsewhere, and nothing that people cannot see."""
    read = Read(body)
    scripts = [attrs for tag, attrs in read.tags if tag == "script"]
    assert [set(attrs) for attrs in scripts] == [{"src", "defer"}]
    for tag, attrs in read.tags:
        assert not any(name.startswith("on") or name == "style" for name in attrs), (tag, attrs)
        for name in ("src", "href", "action"):
            value = attrs.get(name) or ""
            assert ":" not in value.partition("?")[0] or value.startswith("data:image/png;base64,"), value
    assert all(char.isprintable() or char == "\n" for char in read.text)
    return read


@pytest.mark.parametrize("evil", EVILS)
def test_names_are_text(evil: str) -> None:
    inner = pages(named(EVILS[evil]), named(EVILS[evil]))
    for path in ("", "job/0", "job/1", "compare", "compare/0"):
        page = inner.answer(path, {})
        assert page.status == HTTPStatus.OK
        read = check_safe(page.body)
        assert "49" not in read.text or evil != "template"


@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "uint8", "int32", "int16"])
def test_numbers_that_are_none(kind: str) -> None:
    body = numbers(SPECIAL).answer("job/0", {"dtype": kind}).body
    check_safe(body)
    assert kind in body


def test_nan_and_infinity_are_counted_and_named() -> None:
    text = Read(numbers(SPECIAL).answer("job/0", {"dtype": "float32"}).body).text
    assert "2 NaN (green)" in text
    assert "4 infinite (yellow)" in text
    only = Read(numbers(np.full(16, np.nan, "<f4")).answer("job/0", {"dtype": "float32"}).body).text
    assert "16 NaN (green)" in only


def wrong_sizes() -> Trace:
    """Slots of megabytes, over all memory, and of sizes that fit no type."""
    trace = small(*DOUBLE_TWICE)
    slots = [
        replace(trace.slots[0], name="megabytes", shape=(1 << 20,), address=0, bound=False),
        replace(trace.slots[1], name="sparse", shape=(3, 3, 3), strides=(1 << 20, 1 << 16, 8), address=64),
        replace(trace.slots[1], name="bytes", dtype=DType.INT8, shape=(7, 1), strides=(1, 1), address=OUTPUT + 1),
    ]
    return trace.with_(va_bytes=4 << 30, slots=[*trace.slots, *slots])


def broken(change: str) -> Trace:
    """A trace that `Trace.parse` takes and that does not run to its end."""
    trace = small(*DOUBLE_TWICE)
    rows = list(actions_of(trace.actions))
    start = next(at for at, row in enumerate(rows) if row.op == Op.REPLAY_START)
    match change:
        case "diverges":
            rows.insert(start, action(Op.REG_READ_ONCE, register=0, mask=0xFFFFFFFF, expected=0x12345678))
        case "no jobs":
            rows = rows[: start + 1]
        case "no memory":
            rows = [row for row in rows if row.op != Op.MAP_GPU_MEM]
        case "no instructions":
            return trace.with_(image=b"\xff" * len(trace.image))
    return trace.with_(actions=array_of(rows))


@pytest.mark.parametrize("change", ["diverges", "no memory", "no instructions"])
def test_a_trace_that_does_not_run_is_shown_as_far_as_it_goes(change: str) -> None:
    inner = pages(broken(change))
    for path in ("", "job/0", "job/1"):
        text = check_safe(inner.answer(path, {}).body).text
        assert path == "" or "The replay does not reach the end of this job: " in text
    assert "Behaviour of" in inner.answer("report", {}).body


def test_a_trace_without_jobs() -> None:
    inner = pages(broken("no jobs"), broken("no jobs"))
    for path in ("", "compare"):
        check_safe(inner.answer(path, {}).body)
    assert inner.answer("job/0", {}).status == inner.answer("compare/0", {}).status == HTTPStatus.NOT_FOUND


def test_slots_of_wrong_sizes() -> None:
    inner = pages(wrong_sizes())
    for path in ("", "job/0", "job/1"):
        check_safe(inner.answer(path, {}).body)


def test_a_large_tensor_is_cut_and_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operands, "MOST_BYTES", 32)
    text = Read(pages(small(*DOUBLE_TWICE)).answer("job/0", {}).body).text
    assert "16 int32; only the first 8 are shown and counted." in text


def test_a_page_that_is_not_there() -> None:
    inner = pages(small(*DOUBLE_TWICE))
    for path in (
        "job/2",
        "job/-1",
        "job/x",
        "job/١",
        "job/99999999999",
        "job/0/",
        "compare",
        "../etc",
        "window.py",
    ):
        assert inner.answer(path, {}).status == HTTPStatus.NOT_FOUND, path


def test_a_query_that_makes_no_sense_is_as_without_it() -> None:
    wrong = {"dtype": "object", "width": "-1", "packed": "0", "first": "1e9", "more": "x"}
    assert view_of(wrong) == View()
    assert view_of({"dtype": "int8", "width": "28", "packed": "4", "first": "7"}) == View("int8", 28, 4, 7)
    body = (
        pages(small(*DOUBLE_TWICE)).answer("job/0", {"width": "1024", "packed": "64", "first": "4294967296"}).body
    )
    assert 'href="1?width=1024&amp;packed=64&amp;first=4294967296"' in body
    check_safe(body)


def test_a_long_list_is_a_part_of_it() -> None:
    assert near(10, None) == range(10)
    assert near(10**6, 5000) == range(5000 - AROUND, 5000 + AROUND)
    assert len(near(10**6, 10**6 - 1)) <= 2 * AROUND


def test_a_difference_is_shown() -> None:
    """As `replay --compare` finds it: the second job adds something else."""
    given = {"in": np.arange(16, dtype="<i4")}
    inner = pages(small(*DOUBLE_TWICE), small(DOUBLE_TWICE[0], ("add", SCRATCH, INPUT, OUTPUT)), given)
    text = Read(inner.answer("compare", {}).body).text
    assert "2 pairs of jobs, 1 of which write different bytes" in text
    assert "the same" in Read(inner.answer("compare/0", {}).body).text
    different = Read(inner.answer("compare/1", {"dtype": "int32"}).body).text
    assert "15 bytes differ; numbers by at most 15." in different
