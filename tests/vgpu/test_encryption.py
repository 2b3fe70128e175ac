# SPDX-License-Identifier: BSD-2-Clause
"""Encrypted traces in the replayer's core."""

from __future__ import annotations

import pytest

from tee_replayer.generator.status import ReplayError
from tests.support import encryption_samples as e
from tests.support import replayer_samples as s

CASES = list(e.cases())


def loaded(trace: bytes, secret: bytes | None = e.SECRET, fleet: bytes | None = None) -> tuple[str, s.Device]:
    """Name of the status that a load ends with, and the device."""
    device = s.Device()
    device.replayer.decrypts_with(secret, fleet)
    try:
        return device.replayer.load(e.signed(trace), s.KEY).name, device
    except ReplayError as error:
        return error.report.name, device


def test_the_carve_out_is_that_of_the_plain_trace() -> None:
    """Byte for byte, but for the head, which has the message besides."""
    plain, encrypted = loaded(e.plain()), loaded(e.encrypted())
    assert (plain[0], encrypted[0]) == ("OK", "OK")
    image = s.trace().image
    assert bytes(plain[1].memory[: len(image)]) == bytes(encrypted[1].memory[: len(image)]) == bytes(image)


@pytest.mark.parametrize("position", range(16))
def test_each_of_sixteen_recipients_is_found(position: int) -> None:
    keys = e._keys(15)
    keys.insert(position, e.DEVICE)
    assert loaded(e.encrypted(*keys))[0] == "OK"


def test_by_the_fleets_key() -> None:
    trace = e.encrypted(e.FLEET, e.STRANGER)
    assert loaded(trace, None, e.FLEET_BYTES)[0] == "OK"
    assert loaded(trace, e.SECRET, e.FLEET_BYTES)[0] == "OK"
    assert loaded(trace, e.SECRET, None)[0] == "ENCRYPTED"


@pytest.mark.parametrize("scalar", [0, (1 << 256) - 1], ids=["zero", "not less than the order"])
def test_a_fleet_key_that_is_none(scalar: int) -> None:
    assert loaded(e.encrypted(e.FLEET), None, scalar.to_bytes(32, "big"))[0] == "ENCRYPTED"


def test_without_keys() -> None:
    assert loaded(e.encrypted(), None)[0] == "ENCRYPTED"


@pytest.mark.parametrize(("trace", "status"), [row[1:] for row in CASES], ids=[name for name, _, _ in CASES])
def test_what_is_refused_and_leaves_nothing(trace: bytes, status: str) -> None:
    found, device = loaded(trace)
    assert found == status
    assert device.is_wiped
    assert device.replayer.writes == 0


def test_every_bit_of_the_body_is_covered() -> None:
    """Chunks are checked as they lie in the file: no bit of the plaintext can be turned by one of the file."""
    trace = e.encrypted()
    start = int.from_bytes(trace[24:28], "little")
    for at in range(start, len(trace), max(1, (len(trace) - start) // 64)):
        file = bytearray(e.signed(trace))
        file[len(file) - len(trace) + at] ^= 0x10
        device = s.Device()
        device.replayer.decrypts_with(e.SECRET)
        with pytest.raises(ReplayError) as error:
            device.replayer.load(bytes(file), s.KEY)
        assert error.value.report.name == "CHUNK"
        assert device.is_wiped


def test_a_signature_is_checked_before_anything_is_decrypted() -> None:
    """A head that nobody signed: the status is the signature's, though no key would open the body either."""
    file = bytearray(e.signed(e.encrypted(e.STRANGER)))
    file[32 + 60] ^= 1
    device = s.Device()
    device.replayer.decrypts_with(e.SECRET)
    with pytest.raises(ReplayError) as error:
        device.replayer.load(bytes(file), s.KEY)
    assert error.value.report.name in ("SIGNATURE", "ENVELOPE")
