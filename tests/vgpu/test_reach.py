# SPDX-License-Identifier: BSD-2-Clause
"""Which pages of a joint image a network reaches: drawn partitions, what one network's caller gets of another's
weights, and that the device asks its own memory each time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.extras.sharing import joining
from host_tools.model import parts
from host_tools.model.reach import reached
from tee_replayer.generator.status import ReplayError
from tests.support import operator_samples
from tests.support import replayer_samples as s
from tests.support.replayer_samples import PAGE, Parts
from tests.support.sampling import few
from trace_format import errors, networks, packing
from trace_format.actions import ACTION_DTYPE, MAP_READ, MAP_WRITE, Action, Op, action
from trace_format.network import Network
from trace_format.operators import Operator
from trace_format.schema import DType, SectionType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

A, B = range(2)
WEIGHTS = b"the weights of b".ljust(PAGE, b"\x5a")
WORK_PAGES = 2


def stealing(*first: Action) -> Parts:
    """A joint trace: network a fills its output by `first`, and page 1 of the image has the weights of b."""
    mapped = action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=1, a=s.VA, frame=2)
    out = Slot("out", SlotKind.OUTPUT, DType.UINT8, (64,), (1,), s.VA * PAGE)
    actions = [mapped, *first, action(Op.REPLAY_START), action(Op.COPY_FROM_GPU, slot=0)]
    rows = [
        joining.Joining(name, s.trace(*actions, image=image, slots=[out], carveout_bytes=4 * PAGE))
        for name, image in (("a", bytes([1]) * PAGE), ("b", WEIGHTS))
    ]
    return Parts.of(joining.joint(rows, "joint").trace)


def outcome(parts: Parts) -> tuple[str, bytes]:
    """How a replay of the first network ends, and what its caller gets."""
    device = s.Device(carveout_bytes=1 << 20, networks=2)
    out = np.zeros(64, np.uint8)
    try:
        device.replayer.load(parts.signed(), s.KEY)
        device.replayer.bind(0, out)
        device.replayer.run()
    except ReplayError as error:
        return error.report.name, out.tobytes()
    return "OK", out.tobytes()


def test_a_caller_of_one_network_gets_none_of_the_weights_of_another() -> None:
    own = stealing(action(Op.UPLOAD, bytes=64, target=2 * PAGE, source=0))
    assert outcome(own) == ("OK", bytes([1]) * 64)
    assert outcome(own.action(1, b=PAGE)) == ("RANGE", bytes(64))


def test_nor_by_an_output_that_lies_in_them() -> None:
    """Slots only reach working memory, whatever is mapped where they lie, and whoever shares the page."""
    found = stealing(action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=1, a=s.VA, frame=0))
    assert outcome(found) == ("RANGE", bytes(64)), "its own image"
    other = stealing(action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=1, a=s.VA, frame=0)).action(1, b=1)
    assert outcome(other) == ("RANGE", bytes(64))
    assert outcome(other.reach(1, 1 << A | 1 << B)) == ("RANGE", bytes(64))


def test_a_page_that_is_shared_is_reached() -> None:
    """What the row says is what counts: signed as shared, it is."""
    found = stealing(action(Op.UPLOAD, bytes=64, target=2 * PAGE, source=0)).action(1, b=PAGE)
    assert outcome(found.reach(1, 1 << A | 1 << B)) == ("OK", WEIGHTS[:64])


@st.composite
def partitions(draw: st.DrawFn) -> tuple[list[int], list[list[Action]]]:
    """For each page of an image, bits of the networks that reach it; of each network, what it maps and uploads."""
    count = draw(st.integers(2, 8))
    owners = draw(st.lists(st.integers(1, (1 << count) - 1), min_size=1, max_size=9))
    image_pages, every = len(owners), []
    for index in range(count):
        work = image_pages + index * WORK_PAGES
        own: list[Action] = []
        for _ in range(draw(st.integers(0, 2))):
            first = draw(st.integers(0, image_pages - 1))
            # As far as its own working memory, for the first network.
            end = draw(st.integers(first + 1, image_pages + (WORK_PAGES if index == 0 else 0)))
            if draw(st.booleans()):
                own.append(action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=end - first, a=0, frame=first))
            else:
                begin = draw(st.integers(first * PAGE, first * PAGE + PAGE - 1))
                size = draw(st.integers(1, min(WORK_PAGES, image_pages - first) * PAGE - begin % PAGE))
                own.append(action(Op.UPLOAD, bytes=size, target=work * PAGE, source=begin))
        every.append([*own, action(Op.REPLAY_START)])
    return owners, every


def drawn(owners: list[int], every: list[list[Action]]) -> tuple[Trace, bytes]:
    """The trace, and its file, whatever its networks reach."""
    rows, at = [], 0
    image_pages = len(owners)
    for index, own in enumerate(every):
        image = networks.ranges_of(np.array([bool(bits >> index & 1) for bits in owners]))
        page = image_pages + index * WORK_PAGES
        start, at = at, at + len(own)
        rows.append(Network(f"n{index}", start, at - 1, at, 0, 0, page, WORK_PAGES, image=image))
    trace = s.trace(
        image=b"".join(bytes([page + 1]) * PAGE for page in range(image_pages)),
        slots=[],
        carveout_bytes=(image_pages + len(every) * WORK_PAGES) * PAGE,
        networks=[replace(row, image=((0, image_pages),)) for row in rows],
        actions=np.array([row for own in every for row in own], ACTION_DTYPE),
    )
    parts = Parts.of(trace)
    for page, bits in enumerate(owners):
        parts.reach(page, bits)
    return trace.with_(networks=rows), parts.signed()


def is_within(row: Action, owners: list[int], network: int) -> bool:
    """Whether all of the image that an action reads is the network's: page by page."""
    if row.op == Op.MAP_GPU_MEM:
        pages = range(row.frame, row.frame + row.pages)
    elif row.op == Op.UPLOAD:
        pages = range(row.source // PAGE, (row.source + row.bytes - 1) // PAGE + 1)
    else:
        return True
    return all(owners[page] >> network & 1 for page in pages if page < len(owners))


@given(partitions())
@few(100, 2000)
def test_drawn_partitions_are_kept_by_host_and_device(sample: tuple[list[int], list[list[Action]]]) -> None:
    owners, every = sample
    good = all(is_within(row, owners, index) for index, own in enumerate(every) for row in own)
    trace, file = drawn(owners, every)
    device = s.Device(carveout_bytes=1 << 20, networks=8)
    if good:
        trace.check()
        assert Trace.parse(trace.build()).networks == trace.networks
        device.replayer.load(file, s.KEY)
        return
    with pytest.raises(errors.ActionRangeError, match="image of another network"):
        trace.check()
    with pytest.raises(ReplayError) as found:
        device.replayer.load(file, s.KEY)
    assert found.value.report.name == "RANGE"


def change_reach(device: s.Device, file: bytes, page: int, bits: int) -> None:
    """As a fault would: other bits of a page in the section's copy in secure memory."""
    at, end = section(file)
    where = device.memory.find(file[at:end])
    assert where >= 0
    first = packing.unpack("network", file[at : at + packing.size_of("network")], 0)["first_page"]
    device.memory[where + (end - at) - first + page] = bits


def section(file: bytes) -> tuple[int, int]:
    """Where the networks' section lies in a signed file."""
    begin = file.index(b"\x89GTR")
    entry, at = Parts(bytearray(file[begin:])).section(SectionType.NETWORKS)
    size = int.from_bytes(file[begin + entry + 16 : begin + entry + 24], "little")
    return begin + at, begin + at + size


@pytest.mark.parametrize("op", [Op.UPLOAD, Op.MAP_GPU_MEM])
def test_the_device_asks_again_when_an_action_runs(op: Op) -> None:
    """A fault that let a hostile action pass when the trace was loaded is not enough."""
    first = {
        Op.UPLOAD: action(Op.UPLOAD, bytes=64, target=2 * PAGE, source=0),
        Op.MAP_GPU_MEM: action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=1, a=s.VA + 1, frame=0),
    }[op]
    file = stealing(first).signed()
    device = s.Device(carveout_bytes=1 << 20, networks=2)
    device.replayer.load(file, s.KEY)
    device.replayer.bind(0, np.zeros(64, np.uint8))
    change_reach(device, file, 0, 1 << B)
    with pytest.raises(ReplayError) as found:
        device.replayer.run()
    assert (found.value.report.name, found.value.report.action) == ("RANGE", 1)


def computing(operator: Operator, seed: int) -> Trace:
    """A trace whose operator reads operands that lie in the image."""
    found, far = [], (s.VA + 8) * PAGE
    for slot in operator_samples.slots_of(operator, operator_samples.OPERANDS[operator]):
        if slot.kind == SlotKind.INPUT:
            found.append(replace(slot, kind=SlotKind.INTERNAL, bound=True))
        else:
            found.append(replace(slot, address=slot.address - s.VA * PAGE + far))
    end = max(slot.address + slot.span for slot in found if slot.address < far)
    pages = -(-end // PAGE) - s.VA
    actions = (
        action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=pages, a=s.VA, frame=0),
        action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=4, a=s.VA + 8, frame=pages),
        action(Op.REPLAY_START),
        action(Op.OPERATE, slot=0, operator=operator, operands=len(found)),
    )
    image = b"".join(bytes([seed + page]) * PAGE for page in range(pages))
    return s.trace(*actions, image=image, slots=found, carveout_bytes=(pages + 4) * PAGE)


@pytest.mark.parametrize("operator", [Operator.COPY, Operator.DENSE, Operator.MATMUL], ids=str)
def test_an_operator_reads_no_page_of_another_network(operator: Operator) -> None:
    """Even if it is mapped, which only a fault can have done."""
    rows = [joining.Joining(name, computing(operator, seed)) for name, seed in (("a", 1), ("b", 65))]
    trace = joining.joint(rows, "joint").trace
    file = s.signed(trace)
    device = s.Device(carveout_bytes=1 << 20, networks=2)
    device.replayer.load(file, s.KEY)
    device.replayer.run()
    ((first, end),) = trace.networks[A].image
    for page in range(first, end):
        change_reach(device, file, page, 1 << B)
    with pytest.raises(ReplayError) as found:
        device.replayer.run()
    assert (found.value.report.name, found.value.report.action) == ("RANGE", 3)


def test_what_others_reach_is_told() -> None:
    joint = s.apart()
    own = parts.part(joint, joint.networks[A]).with_(image=bytes(joint.image)[: 2 * PAGE])
    (other,) = reached(joint, joint.networks[A], own)
    assert (other.network.name, other.pages, other.zero_pages) == ("b", 1, 0)
    # The content counts: a copy of a's page that only b has is a's page.
    copied = bytearray(joint.image)
    copied[2 * PAGE :] = copied[:PAGE]
    (other,) = reached(joint.with_(image=bytes(copied)), joint.networks[A], own)
    assert other.pages == 2


def test_a_network_that_is_taken_out_has_no_page_of_another() -> None:
    joint = s.apart()
    pages = [bytes(joint.image)[at : at + PAGE] for at in range(0, 3 * PAGE, PAGE)]
    assert bytes(parts.named(joint, "a").image) == pages[0] + pages[1] + bytes(PAGE)
    assert bytes(parts.named(joint, "b").image) == bytes(PAGE) + pages[1] + pages[2]


FORGET = [
    ("core0.CTL_L2TFLSTA", 0),
    ("core0.CTL_L2TFLEND", 0xFFFFFFFF),
    ("core0.CTL_L2TCACTL", 0x100),
    ("core0.CTL_L2TCACTL", 1),
    ("core0.CTL_SLCACTL", 0x0F0F0F0F),
]


def test_the_gpu_forgets_what_its_caches_hold_under_the_table_that_it_is_of() -> None:
    """For all addresses, whatever the network before has set; caches have virtual addresses."""
    narrow = s.write("core0.CTL_L2TFLEND", 0)
    rows = [joining.Joining(name, s.trace(*s.PROLOGUE, narrow, *s.REPLAY)) for name in "ab"]
    device = s.Device(carveout_bytes=1 << 20, networks=2)
    device.replayer.load(s.signed(joining.joint(rows, "joint").trace), s.KEY)
    for network in (A, B, A, B):
        device.replayer.select(network)
        device.replayer.run()
    log = device.gpu.log
    changes = [index for index, (name, _) in enumerate(log) if name == "hub.MMU_PT_PA_BASE"]
    tables = [log[index][1] for index in changes]
    assert device.gpu.resets == 1
    first = next(index for index, table in enumerate(tables) if table != tables[0])
    for before, index in enumerate(changes[first:], first - 1):
        if tables[before] != log[index][1]:
            assert log[index - len(FORGET) : index] == FORGET
    assert len(set(tables)) == 2
    assert tables[-1] != tables[0]


def test_it_forgets_before_memory_is_wiped() -> None:
    """What it writes back of an earlier caller's data is wiped, too; for others' sake, the GPU is not reset."""
    trace = s.joint()
    device = s.Device(carveout_bytes=1 << 20, networks=2)
    device.replayer.load(s.signed(trace), s.KEY)
    for network in (A, B):
        device.replayer.select(network)
        device.replayer.run()
    place = trace.networks[B].end_page * PAGE - 8
    device.replayer.restart()

    def write_back(name: str, value: int) -> None:
        if (name, value) == ("core0.CTL_L2TCACTL", 1):
            device.memory[place] = 0x5A

    device.gpu.on_write = write_back
    device.replayer.run()
    assert device.gpu.resets == 1
    assert device.memory[place] == 0
