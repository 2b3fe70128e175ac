# SPDX-License-Identifier: BSD-2-Clause
"""What a device was made for: found in any image, refused when it contradicts itself."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tee_replayer.generator.device import Device, DeviceError, find
from tests.support.signing_samples import ES256, flipped
from trace_format.schema.firmware import DEVICE_MAGIC as MAGIC

DEVICE = Device("qemu-virt", 0x0123456789ABCDEF, 7, ES256.public)


@given(
    st.binary(max_size=64),
    st.from_regex(r"[a-z0-9-]{1,16}", fullmatch=True),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**24 - 1),
)
def test_it_is_found_where_it_is(before: bytes, platform: str, profile_id: int, version: int, pages: int) -> None:
    device = Device(platform, profile_id, version, ES256.public, pages * 4096)
    assume((before + MAGIC).index(MAGIC) == len(before))
    assert list(find(before + device.encoded + bytes(9))) == [(len(before), device)]


def test_several_and_none() -> None:
    assert [at for at, _ in find(DEVICE.encoded * 2)] == [0, len(DEVICE.encoded)]
    assert list(find(bytes(1000))) == []


def found_in(data: bytes) -> list[Device]:
    """The devices in an image; none when one contradicts itself."""
    try:
        return [device for _, device in find(data)]
    except DeviceError:
        return []


def test_every_flipped_bit_gives_another_device_or_none() -> None:
    data = DEVICE.encoded
    for bit in range(8 * len(data)):
        assert DEVICE not in found_in(flipped(data, bit))


@pytest.mark.parametrize(
    ("offset", "reason"),
    [
        (32, "at offset 0x0: id of the device's key: expected "),
        (60, "at offset 0x0: the device's key is not a point of P-256"),
        (31, "at offset 0x0: the device's platform is not what a build writes"),
    ],
)
def test_what_contradicts_itself_is_named(offset: int, reason: str) -> None:
    with pytest.raises(DeviceError) as error:
        list(find(flipped(DEVICE.encoded, 8 * offset)))
    assert str(error.value).startswith(reason)


def test_a_cut_constant() -> None:
    with pytest.raises(DeviceError, match="at offset 0x3: the device's constant: expected 120 bytes, found 119"):
        list(find(b"abc" + DEVICE.encoded[:-1]))
