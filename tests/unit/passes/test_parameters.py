# SPDX-License-Identifier: BSD-2-Clause
"""Parameters bound at build time: every element where its slot says, nothing else changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from host_tools.cli import main
from host_tools.model.memory import Memory
from host_tools.passes.listing import PASSES
from host_tools.passes.parameters import bind
from tests.support.mali_chains import PAGE, RO, RW, Area, header, submit, trace
from tests.support.sampling import few
from trace_format.actions import MAP_READ, Op, action
from trace_format.errors import SlotError
from trace_format.schema import DTYPE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

JOBS, BASE, PAGES = 0x100000, 0x200000, 6


@st.composite
def slots(draw: st.DrawFn) -> Slot:
    """Dense, with gaps, in another order of dimensions, overlapping; anywhere in the pages that start at BASE."""
    dtype = draw(st.sampled_from(DType))
    size = DTYPE_BYTES[dtype]
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    strides = [size] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    kind = draw(st.sampled_from(["dense", "padded", "permuted", "any"]))
    if kind == "padded":
        axis = draw(st.integers(0, len(shape) - 1))
        pad = size * draw(st.integers(1, 5))
        strides = [stride + pad if i <= axis else stride for i, stride in enumerate(strides)]
    elif kind == "permuted":
        strides = draw(st.permutations(strides))
    elif kind == "any":
        strides = [size * draw(st.integers(1, 40)) for _ in shape]
    span = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + size
    at = draw(st.integers(0, (PAGES * PAGE - span) // size)) * size
    near = draw(st.sampled_from([at, max(0, PAGE - span // 2) // size * size]))
    return Slot("w", SlotKind.PARAMETER, dtype, tuple(shape), tuple(strides), BASE + min(at, near))


def source(*found: Slot, content: bytes = b"") -> Trace:
    """Pages in two areas, so that their frames do not all follow one another; some of them have content."""
    halves = PAGES // 2 * PAGE
    areas = [
        Area(JOBS, data=header(1)),
        Area(BASE, PAGES // 2, RW, content[:halves] or None),
        Area(BASE + halves, PAGES // 2, RO, content[halves:] or None),
    ]
    return trace(areas, submit(JOBS), slots=found)


def visible(made: Trace) -> NDArray[np.uint8]:
    """Initial content of the pages that start at BASE."""
    memory = Memory.of(made)
    frames = [memory.mappings[0, BASE // PAGE + i].frame for i in range(PAGES)]
    return np.concatenate([memory.pages[frame].content for frame in frames])


def element_by_element(slot: Slot, array: NDArray[Any], memory: NDArray[np.uint8]) -> None:
    """The reference: each element's bytes at its own address, in C order."""
    for index in np.ndindex(array.shape):
        at = slot.address - BASE + sum(i * s for i, s in zip(index, slot.strides, strict=True))
        data = array[index].astype(slot.numpy_dtype).tobytes()
        memory[at : at + len(data)] = np.frombuffer(data, np.uint8)


def numbers(slot: Slot, seed: int) -> NDArray[Any]:
    generator = np.random.default_rng(seed)
    if slot.numpy_dtype.kind == "f":
        return generator.normal(size=slot.shape).astype(slot.numpy_dtype)
    info = np.iinfo(slot.numpy_dtype)
    return generator.integers(info.min, info.max, slot.shape, slot.numpy_dtype, endpoint=True)


@few(40, 300)
@given(slots(), st.booleans(), st.integers(0, 99))
def test_every_element_lies_where_its_slot_says(slot: Slot, filled: bool, seed: int) -> None:
    content = np.random.default_rng(seed + 1).integers(1, 256, PAGES * PAGE, np.uint8) if filled else None
    array = numbers(slot, seed)
    made = bind(source(slot, content=b"" if content is None else content.tobytes()), {"w": array})
    made.check()
    expected = np.zeros(PAGES * PAGE, np.uint8) if content is None else content
    element_by_element(slot, array, expected)
    assert np.array_equal(visible(made), expected)
    assert made.slot("w").bound


@given(slots(), st.integers(0, 99))
def test_exactly_its_bytes_matter(slot: Slot, seed: int) -> None:
    """A page that nothing else is known of has no other bytes that must be there."""
    memory = Memory.of(bind(source(slot), {"w": numbers(slot, seed)}))
    mask = np.zeros(PAGES * PAGE, np.uint8)
    ones = np.ones(slot.shape, slot.numpy_dtype)
    element_by_element(slot, ones, mask)
    used = {i // PAGE for i in np.flatnonzero(mask)}
    for i in range(PAGES):
        page = memory.pages[memory.mappings[0, BASE // PAGE + i].frame]
        assert page.is_blank == (i not in used)
    values = visible(bind(source(slot), {"w": ones}))
    assert values[mask == 0].sum() == 0


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_in_any_order_of_memory(order: Literal["C", "F"]) -> None:
    slot = Slot("w", SlotKind.PARAMETER, DType.FLOAT32, (40, 50), (200, 4), BASE + 0xFF0)
    array = np.arange(2000, dtype=np.float32).reshape(40, 50)
    made = bind(source(slot), {"w": np.asarray(array, order=order)})
    assert np.array_equal(visible(made)[0xFF0 : 0xFF0 + 8000].view(np.float32).reshape(40, 50), array)


def test_values_are_converted_to_the_slots_type() -> None:
    slot = Slot("w", SlotKind.PARAMETER, DType.FLOAT16, (3,), (2,), BASE)
    made = bind(source(slot), {"w": np.array([1, 2.5, -3], np.float64)})
    assert visible(made)[:6].view(np.float16).tolist() == [1, 2.5, -3]


def test_several_at_once_and_one_left_open() -> None:
    found = [Slot(f"w{i}", SlotKind.PARAMETER, DType.INT32, (4,), (4,), BASE + i * 0x20) for i in range(3)]
    made = bind(source(*found), {"w0": np.full(4, 7), "w2": np.full(4, 9)})
    assert [s.bound for s in made.slots] == [True, False, True]
    assert visible(made).view("<i4")[:20].tolist() == [7] * 4 + [0] * 12 + [9] * 4
    constant = PASSES["constants"](made)
    assert [s.name for s in constant.slots] == ["w1"]
    copies = constant.actions[constant.actions["op"] == Op.COPY_TO_GPU]
    assert copies["arg"].tolist() == [0]


def test_dropped_slots_leave_the_others_their_copies() -> None:
    kinds = [SlotKind.PARAMETER, SlotKind.INPUT, SlotKind.PARAMETER, SlotKind.OUTPUT]
    found = [
        Slot(f"s{i}", kind, DType.INT32, (4,), (4,), BASE + i * 0x20, bound=i < 2) for i, kind in enumerate(kinds)
    ]
    constant = PASSES["constants"](source(*found))
    assert [s.name for s in constant.slots] == ["s1", "s2", "s3"]
    ops = constant.actions["op"]
    assert constant.actions["arg"][ops == Op.COPY_TO_GPU].tolist() == [0, 1]
    assert constant.actions["arg"][ops == Op.COPY_FROM_GPU].tolist() == [2]


def test_nothing_to_bind() -> None:
    made = source()
    assert bind(made, {}) is made


WEIGHTS = Slot("w", SlotKind.PARAMETER, DType.FLOAT32, (4,), (4,), BASE)
BEYOND = Slot("w", SlotKind.PARAMETER, DType.FLOAT32, (4,), (4,), BASE + PAGES * PAGE - 8)
MOVED = action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=1, frame=1, address_space=0, va_page=BASE // PAGE)


def moved() -> Trace:
    """A page is mapped elsewhere after the last job."""
    found = source(WEIGHTS)
    return found.with_(actions=np.append(found.actions, np.array([MOVED], found.actions.dtype)))


@pytest.mark.parametrize(
    ("made", "shape", "text"),
    [
        (source(WEIGHTS), (5,), r"shape of parameter w: expected \(4,\), found \(5,\)"),
        (source(WEIGHTS), (2, 2), r"shape of parameter w: expected \(4,\), found \(2, 2\)"),
        (source(BEYOND), (4,), f"slot w is not mapped at GPU address {BASE + PAGES * PAGE:#x}"),
        (moved(), (4,), "parameters cannot be bound: virtual page 0x200 of address space 0 is mapped twice"),
        (source(), (4,), "no slot 'w'; there are: none"),
    ],
    ids=["shape", "rank", "not mapped", "moved", "no slot"],
)
def test_refused(made: Trace, shape: tuple[int, ...], text: str, tmp_path: Path) -> None:
    with pytest.raises(SlotError, match=text):
        bind(made, {"w": np.zeros(shape, np.float32)})
    raw, out, value = tmp_path / "raw.gtr", tmp_path / "out.gtr", tmp_path / "w.npy"
    raw.write_bytes(made.build())
    np.save(value, np.zeros(shape, np.float32))
    result = CliRunner().invoke(main, ["build", str(raw), "-o", str(out), "--param", f"w={value}"])
    assert result.exit_code == 2, result.output
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("error: ")
    assert not out.exists()


@pytest.mark.parametrize("kind", SlotKind)
def test_a_slot_that_is_not_mapped(kind: SlotKind, tmp_path: Path) -> None:
    """Also where nothing is bound."""
    slot = Slot("far", kind, DType.FLOAT32, (4,), (4,), 0x900000)
    raw, out = tmp_path / "raw.gtr", tmp_path / "out.gtr"
    raw.write_bytes(source(slot).build())
    result = CliRunner().invoke(main, ["build", str(raw), "-o", str(out)])
    assert (result.exit_code, result.stdout) == (2, "")
    when = "after job 0" if kind is SlotKind.OUTPUT else "before the first job"
    what = f"slot far is not mapped at GPU address 0x900000: the whole slot, {when}; record it again"
    assert result.stderr.startswith(f"error: {raw}: {what}")


def test_a_part_of_a_slot_that_is_not_mapped(tmp_path: Path) -> None:
    """A U-Net's second channel was 16 MB from the first."""
    far = Slot("y", SlotKind.OUTPUT, DType.FLOAT32, (2, 3), (16 << 20, 4), BASE)
    raw, out = tmp_path / "raw.gtr", tmp_path / "out.gtr"
    raw.write_bytes(source(far).build())
    result = CliRunner().invoke(main, ["build", str(raw), "-o", str(out)])
    assert (result.exit_code, out.exists()) == (2, False)
    where = f"{BASE + (16 << 20):#x}: 3 of its 6 elements, from [1, 0] on, after job 0; record it again"
    assert f"slot y is not mapped at GPU address {where}" in result.stderr
