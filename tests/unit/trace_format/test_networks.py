# SPDX-License-Identifier: BSD-2-Clause
"""Networks of joint traces: their bytes, their text, and one of them as a trace of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.extras.sharing import joining
from host_tools.model import parts
from host_tools.text.annotate import annotations_of
from host_tools.text.reader import assemble
from host_tools.text.words import TextError
from host_tools.text.writer import text_of
from tests.support import replayer_samples as s
from tests.support.sampling import few
from tests.support.trace_samples import texts, traces
from trace_format import networks
from trace_format.actions import Columns, Op, Type
from trace_format.errors import NetworkError, ReservedError, SectionError
from trace_format.network import Network
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

U32 = st.integers(0, 0xFFFFFFFF)
MAPS = st.lists(st.booleans(), max_size=9).map(lambda pages: networks.ranges_of(np.array(pages, np.bool_)))
ROWS = st.builds(Network, texts(32), exclusive=st.booleans(), image=MAPS, **dict.fromkeys(networks.NUMBERS, U32))


@given(st.lists(ROWS, min_size=2, max_size=8), st.integers(9, 10))
def test_rows_come_back(rows: list[Network], image_pages: int) -> None:
    data = networks.packed_networks(rows, image_pages)
    assert len(data) == 128 * len(rows) + image_pages
    assert networks.parsed_networks(data, image_pages, 0) == rows


@given(st.lists(st.integers(1, 7), max_size=9))
def test_pages_lie_as_the_format_says(owners: list[int]) -> None:
    """A byte for each page, whose bits are the networks that reach it."""
    rows = [
        Network(
            str(index), 0, 0, 0, 0, 0, 0, 0, image=networks.ranges_of(np.array(owners, np.uint8) >> index & 1 > 0)
        )
        for index in range(3)
    ]
    data = networks.packed_networks(rows, len(owners))
    assert list(data[3 * 128 :]) == owners


def test_pages_that_no_row_can_have() -> None:
    """As text says them: the file cannot."""
    trace = s.apart()
    for image, what in (
        (((0, 1), (1, 2)), "ascend and are apart"),
        (((1, 2), (0, 1)), "ascend and are apart"),
        (((2, 2),), "ascend and are apart"),
        (((0, 4_000_000_000),), "within the image"),
        (((1, 2),), "page 0 of the image: expected a network that reaches it, found none"),
    ):
        rows = [replace(trace.networks[0], image=image), trace.networks[1]]
        with pytest.raises(NetworkError, match=what):
            trace.with_(networks=rows).check()


@given(ROWS)
def test_a_row_lies_as_the_format_says(row: Network) -> None:
    """By offsets of docs/FORMAT.md, put down here once more."""
    data = networks.packed_networks([row], 0)
    names = (
        *("first_action", "replay_start", "end_action", "first_slot", "slot_count", "first_page", "page_count"),
        *("flags", "predicted_us", "longest_job_us", "period_us", "priority", "retry_limit", "time_budget_us"),
    )
    assert data[:32].rstrip(b"\0").decode() == row.name
    for at, name in enumerate(names):
        value = int(row.exclusive) if name == "flags" else getattr(row, name)
        assert int.from_bytes(data[32 + 4 * at : 36 + 4 * at], "little") == value
    assert not any(data[88:])


@given(st.binary(max_size=1200))
def test_other_bytes_are_refused_or_come_back(data: bytes) -> None:
    try:
        rows = networks.parsed_networks(data, 9, 0)
    except (SectionError, ReservedError):
        return
    assert networks.packed_networks(rows, 9) == data


def test_a_value_that_does_not_fit() -> None:
    row = Network("a", 0, 0, 1, 0, 0, 0, 0, priority=1 << 32)
    with pytest.raises(ReservedError):
        networks.packed_networks([row], 0)


def test_names_that_are_meant() -> None:
    rows = s.joint().networks
    assert networks.find(rows, "b") == 1
    with pytest.raises(NetworkError, match="no network 'c'; there are: a, b"):
        networks.find(rows, "c")


@st.composite
def joined(draw: st.DrawFn) -> tuple[list[Trace], joining.Joint]:
    """Random traces, and the same as a joint one."""
    found = []
    for _ in range(draw(st.integers(2, 4))):
        trace = draw(traces())
        slots = [replace(slot, name=f"s{index}", split=None) for index, slot in enumerate(trace.slots)]
        meta = {**trace.meta, "revision_min": 0, "revision_max": 9}
        budget = max(1, trace.meta["time_budget_us"])
        found.append(trace.with_(raw=False, slots=slots, meta={**meta, "time_budget_us": budget}, notes={}))
    rows = [joining.Joining(f"n{index}", trace) for index, trace in enumerate(found)]
    return found, joining.joint(rows, "joint", exclusive=draw(st.booleans()))


@given(joined())
@few(10)
def test_a_joint_trace_comes_back(sample: tuple[list[Trace], joining.Joint]) -> None:
    trace = sample[1].trace
    data = trace.build()
    parsed = Trace.parse(data)
    assert (parsed.networks, parsed.slots) == (trace.networks, trace.slots)
    assert parsed.build() == data
    text = "\n".join(text_of(data, parsed, annotations_of(parsed)))
    assert assemble(text, "t")[0] == data


def mapped(trace: Trace) -> list[Any]:
    """What each page is mapped to, in order: content of the image, or which page of working memory."""
    image = bytes(trace.image).ljust(-(-len(trace.image) // PAGE_BYTES) * PAGE_BYTES, b"\0")
    pages = len(image) // PAGE_BYTES
    columns = Columns(trace.actions)
    found = []
    for row in trace.actions[columns.is_op(Op.MAP_GPU_MEM)]:
        for page in range(int(row["value"])):
            frame = int(row["b"]) + page
            what = image[frame * PAGE_BYTES : (frame + 1) * PAGE_BYTES] if frame < pages else frame
            va = (int(row["arg"]) >> 4) << 32 | int(row["a"])
            found.append((va + page, int(row["flags"]), what))
    return found


@given(joined())
@few(10)
def test_each_network_does_what_its_trace_did(sample: tuple[list[Trace], joining.Joint]) -> None:
    singles, found = sample
    for single, network in zip(singles, found.trace.networks, strict=True):
        part = parts.part(found.trace, network)
        assert Trace.parse(part.build()).jobs == single.jobs
        assert [slot.name for slot in part.slots] == [slot.name for slot in single.slots]
        pages = -(-len(single.image) // PAGE_BYTES)
        moved = network.first_page - pages
        wanted = [
            (va, flags, what + moved if isinstance(what, int) else what) for va, flags, what in mapped(single)
        ]
        assert mapped(part) == wanted
        others = (Op.MAP_GPU_MEM, Op.UPLOAD, Op.REPLAY_START)
        rest = [trace.actions[~Columns(trace.actions).is_op(*others)] for trace in (single, part)]
        same = Columns(rest[0]).of(Type.TARGET)
        assert np.array_equal(
            np.where(same >= 0, same + moved * PAGE_BYTES, same), Columns(rest[1]).of(Type.TARGET)
        )
        assert uploaded(single, 0) == uploaded(part, moved * PAGE_BYTES)


def uploaded(trace: Trace, moved: int) -> list[tuple[int, int]]:
    """Bytes that uploads write, in order: where, and what."""
    found = []
    for row in trace.actions[Columns(trace.actions).is_op(Op.UPLOAD)]:
        begin, size = int(row["b"]), int(row["value"])
        found += list(enumerate(bytes(trace.image)[begin : begin + size], int(row["a"]) - moved))
    return found


def test_texts_that_say_no_network() -> None:
    trace = s.joint()
    text = "\n".join(text_of(trace.build(), trace, annotations_of(trace)))
    for old, new, what in (
        ("first_action 0", "first_action x", 'network "NAME"'),
        ('network "a"', 'network ""', "a name of 1 to 32 bytes"),
        ("first_slot 2", "first_slot 1", "first_slot: expected 2, found 1"),
        ("image [0:1]", "image [0]", "pages of the image as FIRST:END"),
        ("image [0:1]", "", 'network "NAME"'),
        ("image [0:1]", "image []", "page 0 of the image: expected a network that reaches it"),
    ):
        with pytest.raises(TextError, match=what):
            assemble(text.replace(old, new), "t")
