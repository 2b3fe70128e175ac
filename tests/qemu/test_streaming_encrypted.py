# SPDX-License-Identifier: BSD-2-Clause
"""A streamed trace that is encrypted, on QEMU's machine: its outputs are those of the plain one."""

from __future__ import annotations

from host_tools import runners
from signing import encryption
from signing.delivery import Delivery
from tests.support import encryption_samples as e
from tests.support import replayer_samples as s
from tests.support.small_jobs import weighted
from tests.support.streamed import INPUT, WEIGHTS, expected, made, smallest


def test_it_replays_to_the_same_bits() -> None:
    raw = weighted(WEIGHTS)
    plain = made(raw, smallest(raw)).build()
    with encryption.reading_with([e.FLEET]):
        for trace in (plain, encryption.encrypt(plain, [e.public(e.FLEET)])):
            found = runners.run("qemu", Delivery(s.signed(trace)), s.KEY, {"in": INPUT}, repeat=2)
            assert found.ok, found.error
            assert found.outputs["out"].tolist() == expected(raw)
