# SPDX-License-Identifier: BSD-2-Clause
"""Streamed traces that are encrypted, joint or both, on real firmware."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from host_tools import runners
from host_tools.extras.sharing import joining
from host_tools.runners import firmware, libraries
from host_tools.runners.replay import ReplayResult
from signing import encryption
from signing.delivery import Delivery
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import encryption_samples as e
from tests.support import replayer_samples as s
from tests.support.bare_metal import COMPILER, require
from tests.support.small_jobs import weighted
from tests.support.streamed import INPUT, WEIGHTS, expected, made, smallest
from trace_format import layout
from trace_format.schema import PAGE_BYTES, SectionType


@functools.cache
def plain(compress: bool = True) -> bytes:
    raw = weighted(WEIGHTS)
    return made(raw, smallest(raw) + 2 * PAGE_BYTES).build(compress=compress)


def joint() -> bytes:
    raw = weighted(WEIGHTS)
    rows = [joining.Joining(name, made(raw, smallest(raw) + 2 * PAGE_BYTES)) for name in "ab"]
    return joining.joint(rows, "both").trace.build()


@functools.cache
def folder(networks: int, without: str = "") -> Path:
    """Firmware that reads pieces, and decrypts them with a fleet's key; `without` a statement, as by a fault."""
    require(COMPILER, "gcc-aarch64-linux-gnu")
    options = Options(
        "v3d42",
        platform_of("qemu-virt"),
        s.KEY,
        libraries.source(),
        decryption=Decryption(True, e.FLEET_BYTES),
        streaming=True,
        networks=networks,
    )

    def write(out: Path) -> None:
        generate(options, out)
        if without:
            source = (out / "replayer.c").read_text()
            assert source.count(without) == 1
            (out / "replayer.c").write_text(source.replace(without, ""))

    return firmware.compiled_once(write)


def run(trace: bytes, networks: int = 0, slot: str = "in") -> ReplayResult:
    options = {"firmware": folder(networks), "latency_ns": 6_000, "repeat": 2}
    with encryption.reading_with([e.FLEET]):
        return runners.run("unicorn", Delivery(s.signed(trace)), s.KEY, {slot: INPUT}, **options)


def closed(trace: bytes) -> bytes:
    return encryption.encrypt(trace, [e.public(e.FLEET)])


@pytest.mark.parametrize("made_of", [bytes, closed], ids=["plain", "encrypted"])
@pytest.mark.parametrize("networks", [0, 2])
def test_it_replays_to_the_same_bits(made_of: Callable[[bytes], bytes], networks: int) -> None:
    found = run(made_of(plain()), networks)
    assert found.ok, found.error
    assert found.outputs["out"].tolist() == expected(weighted(WEIGHTS))


@pytest.mark.parametrize("made_of", [bytes, closed], ids=["plain", "encrypted"])
def test_the_first_network_of_a_joint_trace(made_of: Callable[[bytes], bytes]) -> None:
    found = run(made_of(joint()), 2, "a/in")
    assert found.ok, found.error
    assert found.outputs["a/out"].tolist() == expected(weighted(WEIGHTS))


def test_what_is_refused() -> None:
    trace = closed(plain())
    part = layout.disassemble(trace)[1].one(SectionType.STREAM)
    turned = bytearray(s.signed(trace))
    turned[len(turned) - len(trace) + part.offset + len(part.stored) // 2] ^= 1
    stranger = s.signed(encryption.encrypt(plain(), [e.public(e.STRANGER)]))
    for signed, name in ((stranger, "ENCRYPTED"), (bytes(turned), "CHUNK")):
        found = runners.run("unicorn", Delivery(signed), s.KEY, {}, firmware=folder(0))
        assert (found.ok, found.report.name) == (False, name)


@pytest.mark.parametrize("without", ["l->r->is_encrypted = true;", "GR_OPEN_PIECE(r, &s);"])
def test_a_piece_that_is_not_decrypted_is_refused(without: str) -> None:
    """The head is asked by code of its own: what one fault has changed does not judge itself."""
    signed = s.signed(closed(plain(compress=False)))  # a packed piece would not unpack
    with encryption.reading_with([e.FLEET]):
        found = runners.run("unicorn", Delivery(signed), s.KEY, {"in": INPUT}, firmware=folder(0, without))
    assert (found.ok, found.report.name) == (False, "CHUNK")
