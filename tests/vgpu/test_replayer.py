# SPDX-License-Identifier: BSD-2-Clause
"""What the replayer's core, in its build for this machine, loads and what it refuses."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from host_tools.runners.needs import secure_bytes
from signing.curves import P256_ORDER
from signing.delivery import Delivery
from signing.keys import Algorithm, PublicKey, generate
from signing.sign import FileSigner, sign_trace
from tee_replayer.generator.status import ReplayError, Report, statuses
from tee_replayer.generator.target import drivers
from tests.support import replayer_samples as s
from tests.support.replayer_samples import PAGE, Device, Parts, signed, trace
from tests.support.sampling import SomeOf
from tests.support.signing_samples import flipped
from trace_format import profile
from trace_format.actions import ALL_BITS, Op, action

EDDSA = FileSigner(generate(Algorithm.EDDSA))


def refusal(device: Device, data: bytes) -> Report:
    """Load something that must be refused: no register is written, nothing stays in the carve-out."""
    before = device.replayer.writes
    with pytest.raises(ReplayError) as error:
        device.replayer.load(data, s.KEY)
    assert device.replayer.writes == before
    assert device.is_wiped
    return error.value.report


@pytest.fixture
def device() -> Device:
    return Device()


LEAST_DISTANCE = 10  # bits in which two values of the status differ
SMALL = signed(trace(*s.PROLOGUE[:1], image=bytes(16), slots=[], carveout_bytes=8 * PAGE))


def test_every_flipped_bit_is_refused(device: Device, some_of: SomeOf) -> None:
    data = SMALL
    device.replayer.load(data, s.KEY)
    device.replayer.unload()
    names = {refusal(device, flipped(data, bit)).name for bit in some_of(range(len(data) * 8), 800)}
    assert device.gpu.log == []
    assert names >= {"FORMAT", "ENVELOPE", "KEY", "SIGNATURE", "SIZE", "CHUNK"}
    assert "FLOW" not in names


def test_every_shorter_and_longer_file_is_refused(device: Device, some_of: SomeOf) -> None:
    data = signed(trace())
    for size in some_of(range(len(data)), 300):
        assert refusal(device, data[:size]).name in ("READ", "SIZE")
    assert refusal(device, data + bytes(8)).name == "SIZE"


def test_other_files_are_refused(device: Device) -> None:
    data = signed(trace())
    assert refusal(device, bytes(500)).name == "FORMAT"
    assert refusal(device, trace().build() + bytes(100)).name == "FORMAT"
    assert refusal(device, sign_trace(trace().build(), EDDSA)).name == "ENVELOPE"
    other = PublicKey(generate(Algorithm.ES256).public_key())
    with pytest.raises(ReplayError, match="another key"):
        device.replayer.load(data, other)
    with pytest.raises(ValueError, match="ES256"):
        device.replayer.load(data, EDDSA.public)


SIGNATURE_END = 32 + 92  # of the signed header and the envelope


def test_older_traces_are_refused(device: Device) -> None:
    data = signed(trace(meta={"security_version": 3}))
    assert device.replayer.load(data, s.KEY, 3).ok
    device.replayer.unload()
    with pytest.raises(ReplayError, match="older"):
        device.replayer.load(data, s.KEY, 4)


def test_the_other_signature_of_the_same_bytes_is_refused(device: Device) -> None:
    """(r, n - s) verifies too: a trace would have a second signed file."""
    data = bytearray(signed(trace()))
    s_at = slice(SIGNATURE_END - 32, SIGNATURE_END)
    for other in (P256_ORDER - int.from_bytes(data[s_at], "big"), P256_ORDER // 2 + 1, P256_ORDER - 1):
        data[s_at] = other.to_bytes(32, "big")
        assert refusal(device, bytes(data)).name == "ENVELOPE"
    data[s_at] = (P256_ORDER // 2).to_bytes(32, "big")
    assert refusal(device, bytes(data)).name == "SIGNATURE", "the largest that is low"


def test_a_small_carveout_is_refused() -> None:
    data = signed(trace())
    need = Device().replayer.load(data, s.KEY).secure_bytes
    assert Device(carveout_bytes=need).replayer.load(data, s.KEY).ok
    assert refusal(Device(carveout_bytes=need - 8), data).name == "MEMORY"


@pytest.mark.parametrize("va_bytes", [1 << 20, 3 << 20, (1 << 20) + PAGE, 0xFFF << 20, 1 << 32])
def test_the_host_knows_to_the_byte_what_a_trace_needs(va_bytes: int) -> None:
    sample = dataclasses.replace(trace(), va_bytes=max(va_bytes, trace().va_bytes))
    data = signed(sample)
    assert Device(carveout_bytes=16 << 20).replayer.load(data, s.KEY).secure_bytes == secure_bytes(Delivery(data))


def test_a_page_table_larger_than_the_memory_is_refused(device: Device) -> None:
    """Other traces that are refused, correctly signed or not: tests/support/hostile.py."""
    assert refusal(device, Parts.of().manifest("va_bytes", 1 << 32).signed()).name == "MEMORY"


@pytest.mark.parametrize("name", drivers())
def test_what_a_trace_may_write_is_what_the_profile_says(name: str) -> None:
    gpu = profile.load(name)
    if gpu.streams:
        assert not any(register_.may_write for register_ in gpu.registers.values())
        return
    device = Device(s.Registers(gpu))
    if gpu.driver == "mali_g71":
        device.gpu.set("gpu.IRQ_RAWSTAT", 0x100)  # it comes out of resets
    any_write = action(
        Op.REG_WRITE, register=next(r.index for r in gpu.registers.values() if r.may_set), mask=ALL_BITS
    )
    for register_ in gpu.registers.values():
        bits = register_.may_set | register_.replay_set
        sample = Parts.of(trace(any_write, gpu=name, slots=[]))
        data = sample.action(0, arg=register_.index, value=bits).signed()
        if not register_.may_write:
            assert refusal(device, data).name == "REGISTER", register_.name
            continue
        device.replayer.load(data, s.KEY)
        device.replayer.run()
        assert (register_.name, bits) in device.gpu.log
        for bit in (1 << n for n in range(32)):
            if bit & ~bits:
                more = sample.action(0, value=bits | bit).signed()
                assert refusal(device, more).name == "REGISTER", register_.name
                break


def test_statuses_are_far_apart() -> None:
    values = [0, 0xFFFFFFFF, *statuses()]
    assert len(statuses()) == len({status.name for status in statuses().values()}) >= 30
    assert min((a ^ b).bit_count() for a, b in itertools.combinations(values, 2)) >= LEAST_DISTANCE


@pytest.mark.parametrize("pages", [2000, 2023, 2024, 9000])
def test_a_head_of_any_size(pages: int) -> None:
    """The signed structure gives the head's size in 16 bits, or in 32 when there are more chunks than that."""
    sample = trace(
        action(Op.REPLAY_START),
        image=bytes(pages * PAGE),
        carveout_bytes=(pages + 16) * PAGE,
        slots=[],
    )
    data = signed(sample, chunk_bytes=PAGE)
    head_bytes = int.from_bytes(data[128 + 24 : 128 + 28], "little")
    assert (head_bytes > 0xFFFF) == (pages > 2023)
    device = Device(carveout_bytes=(pages + 64) * PAGE + head_bytes)
    device.replayer.load(data, s.KEY)
    device.replayer.run()
    device.replayer.unload()
    assert device.is_wiped
    assert refusal(device, flipped(data, 8 * (128 + head_bytes - 8))).name == "SIGNATURE"


def test_image_sections_follow_each_other(device: Device) -> None:
    rng = np.random.default_rng(1)
    image = rng.bytes(5000) + bytes(3000) + s.IMAGE
    sample = trace(action(Op.REPLAY_START), image=image, slots=[])
    for compress in (False, True):
        data = sample.build(compress=compress, chunk_bytes=4096)
        device.replayer.load(signed(data), s.KEY)
        assert device.memory[: len(image)] == image
        device.replayer.unload()
