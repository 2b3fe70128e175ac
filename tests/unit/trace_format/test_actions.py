# SPDX-License-Identifier: BSD-2-Clause
"""The action table: the array type agrees with the schema, and every rule about operands is enforced."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.trace_samples import CARVEOUT, VA_BYTES, actions
from trace_format.actions import (
    ACTION_DTYPE,
    ACTIONS,
    FLAG_IGNORE,
    MAP_EXECUTE,
    MAP_READ,
    MAP_WRITE,
    Action,
    Columns,
    Op,
    Type,
    action,
    actions_of,
    array_of,
    operands_of,
    rewritten,
)
from trace_format.errors import (
    ActionError,
    ActionRangeError,
    RegisterRangeError,
    ReservedError,
    TraceError,
    UnknownActionError,
)
from trace_format.schema import KEEP_SLOTS, PAGE_BYTES
from trace_format.schema import Action as Structure
from trace_format.validate import check_actions, job_count

IMAGE = 4 * PAGE_BYTES - 1  # its last page is the image's too
IMAGE_END = 4 * PAGE_BYTES
OPERANDS = ("arg", "value", "a", "b")
WINDOW = 0xC000
SPACES = 8
ALL = 0xFFFFFFFF
RWX = MAP_READ | MAP_WRITE | MAP_EXECUTE


def check(*records: np.void | Action) -> None:
    """Check a stream against a carve-out of 16 pages, an image of 4, 2 slots, one interrupt line, 8 spaces."""
    check_actions(
        np.array(list(records), dtype=ACTION_DTYPE),
        image_bytes=IMAGE,
        carveout_bytes=CARVEOUT,
        va_bytes=VA_BYTES,
        slot_count=2,
        window_bytes=WINDOW,
        lines=1,
        address_spaces=SPACES,
        where="x.gtr: ",
    )


@given(st.lists(st.tuples(*[st.integers(0, (1 << b) - 1) for b in (8, 8, 16, 32, 32, 32)]), max_size=20))
def test_numpy_and_construct_read_the_same_actions(rows: list[tuple[int, ...]]) -> None:
    data = np.array(rows, dtype=ACTION_DTYPE).tobytes()
    names = [s.name for s in Structure.subcons]
    for index, row in enumerate(rows):
        parsed = Structure.parse(data[16 * index : 16 * index + 16])
        assert tuple(parsed[name] for name in names) == row


@given(st.integers(0, 15), st.integers(0, (1 << 44) - 1))
def test_virtual_pages_round_trip(space: int, page: int) -> None:
    record = action(Op.UNMAP_GPU_MEM, pages=1, address_space=space, va_page=page)
    assert (record.address_space, record.va_page, record.pages) == (space, page, 1)
    assert record.arg & 15 == space


@pytest.mark.parametrize(("space", "page"), [(16, 0), (-1, 0), (0, 1 << 44), (0, -1)])
def test_virtual_pages_that_cannot_be_encoded(space: int, page: int) -> None:
    with pytest.raises(ValueError, match="cannot be encoded"):
        action(Op.UNMAP_GPU_MEM, address_space=space, va_page=page)


def test_an_action_has_the_operands_of_its_opcode_and_no_others() -> None:
    wait = action(Op.REG_READ_WAIT, register=3, expected=5, mask=7, timeout_us=9)
    assert (wait.register, wait.expected, wait.mask, wait.timeout_us) == (3, 5, 7, 9)
    assert wait == action(Op.REG_READ_WAIT, register=3, expected=5, mask=7, timeout_us=9)
    assert wait.with_(mask=8, b=10) == action(Op.REG_READ_WAIT, register=3, expected=5, mask=8, timeout_us=10)
    with pytest.raises(AttributeError, match="0x02 has no operand keep"):
        assert wait.keep
    with pytest.raises(AttributeError, match="0x99 has no operand keep"):
        assert Action(0x99, 0, 0, 0, 0, 0).keep
    with pytest.raises(TypeError, match="RegReadWait has no operand keep"):
        action(Op.REG_READ_WAIT, keep=1)
    with pytest.raises(ValueError, match="RegReadWait: register 0x10000 cannot be encoded"):
        action(Op.REG_READ_WAIT, register=0x10000)


@given(st.data())
def test_columns_agree_with_single_actions(data: st.DataObject) -> None:
    ops = data.draw(st.lists(st.sampled_from(sorted(set(Op) - {Op.JOB, Op.REPLAY_START})), max_size=8))
    rows = array_of(data.draw(actions(op, IMAGE, 2, SPACES)) for op in ops)
    columns = Columns(rows)
    for name in ("register", "mask", "timeout_us", "address_space", "va_page", "frame", "target", "slot", "bytes"):
        one_by_one = [getattr(a, name) if name in operands_of(a.op) else -1 for a in actions_of(rows)]
        assert getattr(columns, name).tolist() == one_by_one
    assert list(actions_of(rewritten(rows, lambda x: x, *Type))) == list(actions_of(rows))
    moved = rewritten(rows, lambda x: x + 1, Type.VA_PAGE, Type.SLOT)
    for old, new in zip(actions_of(rows), actions_of(moved), strict=True):
        changes = {name: getattr(old, name) + 1 for name in ("va_page", "slot") if name in operands_of(old.op)}
        assert new == old.with_(**changes)
    with pytest.raises(AttributeError, match="no action has an operand colour"):
        assert columns.colour


@pytest.mark.parametrize("op", sorted(set(Op) - {Op.JOB, Op.REPLAY_START}), ids=lambda op: op.name)
@given(data=st.data())
def test_valid_actions_pass(op: Op, data: st.DataObject) -> None:
    check(data.draw(actions(op, IMAGE, 2, SPACES)))


def test_every_row_is_complete() -> None:
    for op, row in ACTIONS.items():
        assert row.op is op
        assert row.what
        assert set(row.fields) <= set(OPERANDS)
        assert all(bit & (bit - 1) == 0 for bit in row.flags)
        assert len({operand.type for operand in row.operands}) == len(row.operands), "no two of one type"
        places = [place for operand in row.operands for place in operand.places]
        taken = {(p.field, bit) for p in places for bit in range(p.low, p.low + p.count)}
        assert len(taken) == sum(p.count for p in places), "operands do not overlap"


VALID = {
    Op.REG_READ_WAIT: {"b": 1},
    Op.MAP_GPU_MEM: {"flags": RWX, "value": 1, "b": IMAGE_END // PAGE_BYTES},
    Op.UNMAP_GPU_MEM: {"value": 1},
    Op.UPLOAD: {"value": 1, "a": IMAGE_END},
    Op.CLEAR: {"value": 1, "a": IMAGE_END},
    Op.WAIT_IRQ: {"value": 1},
}
UNUSED = [(op, name) for op, row in ACTIONS.items() for name in OPERANDS if name not in row.fields]
BAD_FLAGS = [(op, 1 << bit) for op, row in ACTIONS.items() for bit in range(8) if 1 << bit not in row.flags]


@pytest.mark.parametrize(("op", "name"), UNUSED, ids=lambda x: getattr(x, "name", x))
def test_every_unused_field_must_be_zero(op: Op, name: str) -> None:
    check(action(op, **VALID.get(op, {})))
    with pytest.raises(ReservedError, match=f"action 1: a field that .* is not zero: {ACTIONS[op].name}"):
        check(action(Op.INTERVAL), action(op, **(VALID.get(op, {}) | {name: 1})))


@pytest.mark.parametrize(("op", "bit"), BAD_FLAGS, ids=lambda x: getattr(x, "name", x))
def test_every_unused_flag_must_be_zero(op: Op, bit: int) -> None:
    values = VALID.get(op, {})
    with pytest.raises(ReservedError, match="action 0"):
        check(action(op, **(values | {"flags": values.get("flags", 0) | bit})))


@pytest.mark.parametrize("code", sorted(set(range(256)) - set(Op)))
def test_every_unknown_opcode_is_refused(code: int) -> None:
    bad = np.array([(code, 0, 0, 0, 0, 0)], dtype=ACTION_DTYPE)[0]
    with pytest.raises(UnknownActionError, match=f"x.gtr: action 1: unknown opcode: {code:#04x}"):
        check(action(Op.INTERVAL), bad)


REGISTER_OPS = (Op.REG_READ_ONCE, Op.REG_READ_WAIT, Op.REG_WRITE, Op.REG_READ_KEEP, Op.REG_WRITE_KEPT)
PAGES, VA_PAGES = CARVEOUT // PAGE_BYTES, VA_BYTES // PAGE_BYTES
MALFORMED: list[tuple[str, Action, type[TraceError], str]] = [
    *(
        (
            f"{op.name} outside the window",
            action(op, **(VALID.get(op, {}) | {"arg": WINDOW // 4})),
            RegisterRangeError,
            "register outside",
        )
        for op in REGISTER_OPS
    ),
    ("keep 8", action(Op.REG_READ_KEEP, keep=KEEP_SLOTS), ActionRangeError, "no such kept value"),
    ("kept 8", action(Op.REG_WRITE_KEPT, keep=ALL), ActionRangeError, "no such kept value"),
    ("wait on line 1", action(Op.WAIT_IRQ, line=1, timeout_us=1), ActionRangeError, "no such interrupt line"),
    ("enter line 1", action(Op.IRQ_ENTER, line=1), ActionRangeError, "no such interrupt line"),
    ("exit line 0xffff", action(Op.IRQ_EXIT, line=0xFFFF), ActionRangeError, "no such interrupt line"),
    ("to slot 2", action(Op.COPY_TO_GPU, slot=2), ActionRangeError, "no such slot"),
    ("from slot 2", action(Op.COPY_FROM_GPU, slot=2), ActionRangeError, "no such slot"),
    ("wait forever for a line", action(Op.WAIT_IRQ), ActionError, "timeout is zero"),
    ("wait forever for a register", action(Op.REG_READ_WAIT), ActionError, "timeout is zero"),
    ("ignored with a mask", action(Op.REG_READ_ONCE, flags=FLAG_IGNORE, mask=1), ActionError, "has a mask"),
    ("address space 8", action(Op.SET_GPU_PGTABLE, address_space=8), ActionRangeError, "no such address space"),
    ("address space 16", action(Op.SET_GPU_PGTABLE, address_space=16), ActionRangeError, "no such address space"),
    (
        "map into address space 8",
        action(Op.MAP_GPU_MEM, flags=RWX, pages=1, address_space=8, va_page=0),
        ActionRangeError,
        "no such address space",
    ),
    (
        "unmap from address space 15",
        action(Op.UNMAP_GPU_MEM, pages=1, address_space=15, va_page=0),
        ActionRangeError,
        "no such address space",
    ),
    ("map nothing", action(Op.MAP_GPU_MEM, flags=RWX), ActionError, "no pages"),
    ("unmap nothing", action(Op.UNMAP_GPU_MEM), ActionError, "no pages"),
    (
        "map past va_bytes",
        action(Op.MAP_GPU_MEM, flags=RWX, pages=2, a=VA_PAGES - 1),
        ActionRangeError,
        "outside va_bytes",
    ),
    (
        "map far past va_bytes",
        action(Op.MAP_GPU_MEM, flags=RWX, pages=1, address_space=0, va_page=1 << 43),
        ActionRangeError,
        "outside va_bytes",
    ),
    ("unmap after the end", action(Op.UNMAP_GPU_MEM, pages=1, a=VA_PAGES), ActionRangeError, "outside va_bytes"),
    ("unmap all", action(Op.UNMAP_GPU_MEM, pages=ALL, a=1), ActionRangeError, "outside va_bytes"),
    (
        "map past the carve-out",
        action(Op.MAP_GPU_MEM, flags=RWX, pages=2, frame=PAGES - 1),
        ActionRangeError,
        "outside the carve-out",
    ),
    (
        "map that wraps",
        action(Op.MAP_GPU_MEM, flags=RWX, pages=2, frame=ALL),
        ActionRangeError,
        "outside the carve-out",
    ),
    (
        "map the image's last page writable",
        action(Op.MAP_GPU_MEM, flags=MAP_WRITE, pages=1, frame=IMAGE_END // PAGE_BYTES - 1),
        ActionRangeError,
        "the GPU may write to the image",
    ),
    ("map without permission", action(Op.MAP_GPU_MEM, pages=1), ActionError, "without any permission"),
    ("upload nothing", action(Op.UPLOAD, target=IMAGE_END), ActionError, "no bytes"),
    ("clear nothing", action(Op.CLEAR, target=IMAGE_END), ActionError, "no bytes"),
    ("upload into the image", action(Op.UPLOAD, bytes=1, target=IMAGE_END - 1), ActionRangeError, "in the image"),
    ("clear in the image", action(Op.CLEAR, bytes=1, target=0), ActionRangeError, "in the image"),
    ("upload after the end", action(Op.UPLOAD, bytes=2, target=CARVEOUT - 1), ActionRangeError, "target outside"),
    ("clear after the end", action(Op.CLEAR, bytes=1, target=CARVEOUT), ActionRangeError, "target outside"),
    ("clear that wraps", action(Op.CLEAR, bytes=2, target=ALL), ActionRangeError, "target outside"),
    (
        "upload from after the image",
        action(Op.UPLOAD, bytes=2, target=IMAGE_END, source=IMAGE - 1),
        ActionRangeError,
        "source outside",
    ),
    (
        "upload that wraps",
        action(Op.UPLOAD, bytes=1, target=IMAGE_END, source=ALL),
        ActionRangeError,
        "source outside",
    ),
]


@pytest.mark.parametrize(("name", "bad", "error", "message"), MALFORMED, ids=[row[0] for row in MALFORMED])
def test_malformed_actions(name: str, bad: Action, error: type[TraceError], message: str) -> None:
    with pytest.raises(error) as caught:
        check(action(Op.INTERVAL, us=1), bad)
    assert type(caught.value) is error
    assert str(caught.value).startswith("x.gtr: action 1: ")
    assert message in str(caught.value)


def test_the_first_bad_action_is_named() -> None:
    good, bad = action(Op.INTERVAL), action(Op.COPY_TO_GPU, slot=9)
    with pytest.raises(ActionRangeError, match="action 3: no such slot: CopyToGpu with flags 0x0, arg 0x9"):
        check(good, good, good, bad, good, bad)


def test_second_replay_start() -> None:
    start = action(Op.REPLAY_START)
    check(start, action(Op.INTERVAL))
    with pytest.raises(ActionError, match="action 2: a second ReplayStart"):
        check(start, action(Op.INTERVAL), start)


@pytest.mark.parametrize("numbers", [[1], [0, 0], [0, 2], [0, 1, 3], [ALL]])
def test_job_numbers_count_from_zero(numbers: list[int]) -> None:
    with pytest.raises(ActionError, match="do not count from 0"):
        check(*(action(Op.JOB, number=n) for n in numbers))


def test_jobs_are_counted() -> None:
    stream = np.array([action(Op.JOB, number=n) for n in range(3)] + [action(Op.INTERVAL)], dtype=ACTION_DTYPE)
    check(*stream)
    assert job_count(stream) == 3
    assert job_count(stream[:0]) == 0
