# SPDX-License-Identifier: BSD-2-Clause
"""Slots and weights of the public recordings: each byte that the networks' descriptions call used is in its place.

What is expected here was found by executing the recorded shaders with made-up weights, and comparing what each job
wrote with NumPy; the addresses are those of gr_sync_as.
"""

from __future__ import annotations

import functools
import io
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from host_tools.extras.importers import gpureplay
from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.extras.importers.networks import file
from host_tools.extras.importers.networks.weights import describe, read_weights, slot_values, with_weights
from host_tools.model.memory import Memory
from host_tools.passes.pipeline import build
from tests.support.mali_watch import LATENCY_NS, PAGE, Part, Watch
from trace_format import profile
from trace_format.actions import MAP_WRITE, Columns, Op, actions_of
from trace_format.schema import SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

# name, address, shape, strides; kinds are by place, as in every recording of these
Row = tuple[str, int, tuple[int, ...], tuple[int, ...]]
MNIST: list[Row] = [
    ("conv1.weight", 0xFFFFAE000000, (32, 3, 3), (36, 12, 4)),
    ("conv1.bias", 0xFFFFAE000480, (32,), (4,)),
    ("conv2.weight", 0xFFFFB7C8A880, (32, 3, 3, 32), (1152, 384, 128, 4)),
    ("conv2.bias", 0xFFFFAE000500, (32,), (4,)),
    ("conv3.weight", 0xFFFFB7C93880, (32, 3, 3, 32), (1152, 384, 128, 4)),
    ("conv3.bias", 0xFFFFAE000580, (32,), (4,)),
    ("fc.weight", 0xFFFFB7C9C880, (10, 1568), (6272, 4)),
    ("fc.bias", 0xFFFFAE000600, (10,), (4,)),
    ("input", 0xFFFFB7C89000, (28, 28), (224, 8)),
    ("output", 0xFFFFAE000680, (10,), (4,)),
]


def dense(*shape: int) -> tuple[int, ...]:
    return tuple(4 * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))


def alexnet() -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes of its slots; the first buffer is not used."""
    rows: list[tuple[str, tuple[int, ...]]] = []
    for i, (out, side, ins) in enumerate(
        [(96, 11, 3), (256, 5, 48), (384, 3, 256), (384, 3, 192), (256, 3, 192)], 1
    ):
        rows += [(f"conv{i}.weight", (out, side, side, ins)), (f"conv{i}.bias", (out,))]
    for i, (out, ins) in enumerate([(4096, 9216), (4096, 4096), (1000, 4096)], 6):
        rows += [(f"fc{i}.weight", (out, ins)), (f"fc{i}.bias", (out,))]
    return [*rows, ("input", (227, 227, 3)), ("output", (1000,))]


def mobilenet() -> list[tuple[str, tuple[int, ...]]]:
    """As `alexnet`."""
    rows: list[tuple[str, tuple[int, ...]]] = []

    def layer(name: str, weight: tuple[int, ...], channels: int) -> None:
        rows.append((f"{name}.weight", weight))
        rows.extend((f"{name}.{part}", (channels,)) for part in ("mean", "variance", "beta", "gamma"))

    layer("conv1", (32, 3, 3, 3), 32)
    ins = 32
    for i, out in enumerate([64, 128, 128, 256, 256, *[512] * 6, 1024, 1024], 1):
        layer(f"conv_dw_{i}", (3, 3, ins), ins)
        layer(f"conv_pw_{i}", (out, ins), out)
        ins = out
    rows += [("conv_preds.weight", (1001, 1024)), ("conv_preds.bias", (1001,))]
    return [*rows, ("input", (224, 224, 3)), ("output", (1001,))]


@functools.cache
def described(folder: Path) -> Trace:
    return describe(import_gpureplay(folder, folder.name), file.load(folder.name))


def expected_rows(folder: Path) -> list[Row]:
    if folder.name == "mnist":
        return MNIST
    buffers = gpureplay.read_buffers((folder / gpureplay.BUFFERS).read_bytes(), profile.load("mali_g71"))
    rows = {"alexnet": alexnet, "mobilenet": mobilenet}[folder.name]()
    return [
        (name, buffer.start, shape, dense(*shape)) for (name, shape), buffer in zip(rows, buffers[1:], strict=True)
    ]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.exhaustive if name == "alexnet" else ()) for name in file.names()],
)
def test_slots(recordings: Path, name: str) -> None:
    trace = described(recordings / name)
    rows = expected_rows(recordings / name)
    assert [(s.name, s.address, s.shape, s.strides) for s in trace.slots] == rows
    kinds = [SlotKind.PARAMETER] * (len(rows) - 2) + [SlotKind.INPUT, SlotKind.OUTPUT]
    assert [slot.kind for slot in trace.slots] == kinds
    columns = Columns(trace.actions)
    assert columns.slot[columns.is_op(Op.COPY_TO_GPU)].tolist() == list(range(len(rows) - 1))
    assert columns.slot[columns.is_op(Op.COPY_FROM_GPU)].tolist() == [len(rows) - 1]


@pytest.fixture(scope="module")
def trained(recordings: Path, mnist_weights: bytes) -> Trace:
    """mnist with these weights, imported."""
    return with_weights(described(recordings / "mnist"), mnist_weights, "mnist.npz", file.load("mnist"))


def mnist_layout(weights: bytes) -> dict[int, bytes]:
    """By address: inputs of an output next to each other, where the file has them below each other."""
    arrays = np.load(io.BytesIO(weights))
    names = ["W1", "b1", "W2", "b2", "W3", "b3", "WF", "bf"]
    return {row[1]: arrays[name].T.tobytes() for row, name in zip(MNIST, names, strict=False)}


def part(slot: Slot) -> Part:
    return Part(slot.name, slot.address_space, slot.address, slot.span)


def found_by_the_first_job(
    trace: Trace, slots: list[Slot], values: dict[str, NDArray[np.float32]]
) -> list[list[bytes]]:
    """Content of the slots' memory when the first job starts, in each of three replays; of three devices, where
    that job runs in the prologue."""
    device = Watch(trace, latency_ns=LATENCY_NS)
    mappings = Memory.of(trace).mappings
    pages = {va // PAGE for slot in slots for va in range(slot.address, slot.address + slot.span, PAGE)}
    in_image = {page for page in pages if mappings[0, page].frame * PAGE < len(trace.image)}
    writable = {page for page in pages if mappings[0, page].flags & MAP_WRITE}
    assert pages - in_image
    assert not writable & in_image  # what lies in the image no job may write
    found = []
    for dirt in (0xA5, 0x5A, 0xC3):
        if device.once:
            device.close()
            device = Watch(trace, latency_ns=LATENCY_NS)
        device.parts = [[part(slot) for slot in slots], *[[]] * (trace.jobs - 1)]
        device.dirt = dirt
        device.run(values)
        found.append([content.tobytes() for content in device.jobs[0].values()])
    device.close()
    return found


BUILT = {
    "parameters stay slots": {"skip": ["constants"]},
    "prepared in each replay": {"skip": ["preparation"]},
    "memory as recorded": {"skip": ["preparation", "dead-memory", "plan-memory", "relocate"]},
}


@pytest.mark.parametrize("how", BUILT)
def test_weights_are_put_in_place_before_each_replay(trained: Trace, mnist_weights: bytes, how: str) -> None:
    """The recorded jobs overwrite them: job 4 lays the dense layer's weights over conv2's."""
    trace = build(trained, **BUILT[how])  # type: ignore[arg-type]
    left = [slot.name for slot in trace.slots]
    assert left == (
        ["input", "output"] if "constants" not in BUILT[how].get("skip", []) else [r[0] for r in MNIST]
    )
    picture = np.random.default_rng(1).random((28, 28), np.float32)
    slots = [slot for slot in trained.slots if slot.kind == SlotKind.PARAMETER]
    layout = mnist_layout(mnist_weights)
    for found in found_by_the_first_job(trace, slots, {"input": picture}):
        assert dict(zip([slot.address for slot in slots], found, strict=True)) == layout


def test_weights_that_a_caller_gives(recordings: Path, mnist_weights: bytes) -> None:
    network = file.load("mnist")
    trace = build(described(recordings / "mnist"))
    values = slot_values(read_weights(mnist_weights, "mnist.npz", network), network)
    picture = np.random.default_rng(1).random((28, 28), np.float32)
    slots = [slot for slot in trace.slots if slot.kind == SlotKind.PARAMETER]
    layout = mnist_layout(mnist_weights)
    for found in found_by_the_first_job(trace, slots, {**values, "input": picture}):
        assert dict(zip([slot.address for slot in slots], found, strict=True)) == layout


def test_an_upload_that_is_not_repeated_is_noticed(trained: Trace, mnist_weights: bytes) -> None:
    """The one of conv2's weights, moved into the prologue."""
    trace = build(trained, skip=["preparation"])
    (slot,) = [slot for slot in trained.slots if slot.name == "conv2.weight"]
    place = Memory.of(trace).mappings[0, slot.address // PAGE].frame * PAGE + slot.address % PAGE
    rows = list(actions_of(trace.actions))
    upload = next(i for i, r in enumerate(rows) if r.op == Op.UPLOAD and r.target <= place < r.target + r.bytes)
    start = next(i for i, row in enumerate(rows) if row.op == Op.REPLAY_START)
    order = [*range(start), upload, start, *[i for i in range(start + 1, len(rows)) if i != upload]]
    once = trace.with_(actions=trace.actions[order])
    expected = mnist_layout(mnist_weights)[slot.address]
    found = found_by_the_first_job(once, [slot], {"input": np.zeros((28, 28), np.float32)})
    assert expected not in [content for (content,) in found[1:]]


def test_every_second_float_of_the_input(trained: Trace) -> None:
    picture = np.random.default_rng(2).random((28, 28), np.float32)
    (slot,) = [slot for slot in trained.slots if slot.name == "input"]
    for (found,) in found_by_the_first_job(build(trained, skip=["preparation"]), [slot], {"input": picture}):
        assert len(found) == 783 * 8 + 4
        assert found == b"".join(x.tobytes() + found[4:8] for x in picture.reshape(-1))[:-4]
        assert found[4:8] not in picture.tobytes()


@pytest.mark.exhaustive  # mnist's, above; whole networks: test_mali_networks.py
def test_mobilenets_weights(recordings: Path) -> None:
    """Random ones: those of convolutions over all channels with the batch norm's scale, all else as given."""
    folder, network = recordings / "mobilenet", file.load("mobilenet")
    generator = np.random.default_rng(3)
    arrays = {s.name: generator.random(s.shape, np.float32) for s in network.parameters.values()}
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    trace = with_weights(described(folder), content.getvalue(), "w.npz", network)
    slots = [slot for slot in trace.slots if slot.kind == SlotKind.PARAMETER]
    picture = generator.random((224, 224, 3), np.float32)
    (*_, found) = found_by_the_first_job(build(trace), slots, {"input": picture})
    for slot, content_found in zip(slots, found, strict=True):
        expected = arrays[slot.name].astype(np.float64)
        layer, _, what = slot.name.partition(".")
        if what == "weight" and (layer == "conv1" or layer.startswith("conv_pw")):
            scale = arrays[f"{layer}.gamma"] / np.sqrt(arrays[f"{layer}.variance"].astype(np.float64) + 0.001)
            expected = np.stack([weight * s for weight, s in zip(expected, scale, strict=True)])
        assert content_found == expected.astype("<f4").tobytes(), slot.name
