# SPDX-License-Identifier: BSD-2-Clause
"""Trust policies: the verdicts of host and core on named cases. No register is written for refused ones."""

from __future__ import annotations

import pytest

from host_tools.runners.needs import secure_bytes
from signing.delivery import Delivery
from signing.errors import TrustError
from signing.trust import Policy
from signing.verify import Verdict, verify_under_policy
from tee_replayer.generator.hostlib import HostReplayer
from tee_replayer.generator.status import ReplayError, statuses
from tests.support import replayer_samples as s
from tests.support import trust_samples as t
from tests.support.hostile_trust import CASES
from tests.support.trust_case import HERE, Case
from tests.support.trust_samples import policy
from trace_format.schema.report import Status
from trace_format.schema.trust import KeyKind

# Statuses for which the host says that a file is malformed: it does not come to a verdict on who signed it.
FORMS = {Status.FORMAT, Status.ENVELOPE, Status.SIZE, Status.READ}


def device_with(*algorithms: KeyKind) -> s.Device:
    found = s.Device()
    library = s.library(trust=True, algorithms=algorithms)
    found.replayer = HostReplayer(library, found.gpu.gpu, found.gpu.c_interface, found.memory, s.CARVEOUT_PHYS)
    return found


@pytest.fixture(scope="module")
def device() -> s.Device:
    return device_with(*KeyKind)


def by_core(device: s.Device, case: Case, data: bytes) -> Status:
    """The core's status; what it refuses leaves nothing behind."""
    before = device.replayer.writes
    try:
        device.replayer.load_trusted(data, case.malformed or case.root.encode(), case.where)
    except ReplayError as error:
        assert device.replayer.writes == before
        assert device.is_wiped
        return statuses()[error.report.status]
    device.replayer.unload()
    return Status.OK


def by_host(case: Case, data: bytes) -> Status | None:
    """The host's; None: the file is malformed. A policy that no device takes is not even read."""
    if case.malformed:
        with pytest.raises(TrustError):
            Policy.decode(case.malformed)
        return Status.TRUST
    found = verify_under_policy(Delivery(data), case.root, case.where)
    if found.verdict is Verdict.MALFORMED:
        return None
    assert found.trust is not None
    assert found.ok == (found.trust.status is Status.OK)
    return found.trust.status


@pytest.mark.parametrize("name", CASES)
def test_a_named_case(name: str, device: s.Device) -> None:
    case = CASES[name]
    data = case.make()
    if case.where.algorithms is not None:
        device = device_with(*case.where.algorithms)
    assert by_core(device, case, data).name == case.status.name
    assert by_host(case, data) == (None if case.status in FORMS else case.status)


def test_memory_is_known_to_the_byte(device: s.Device) -> None:
    """What `secure_bytes` says is enough, and 8 bytes less are not."""
    newer = t.signed_policy(policy(version=2))
    for root, data in (
        (policy(), t.signed()),
        (policy(), t.signed(policies=[newer])),
        (t.hybrid_policy(), t.signed(t.HYBRIDS[:2])),
    ):
        need = secure_bytes(Delivery(data))
        for size, status in ((need, Status.OK), (need - 8, Status.MEMORY)):
            memory = bytearray(size)
            replayer = HostReplayer(
                s.library(trust=True), device.gpu.gpu, device.gpu.c_interface, memory, s.CARVEOUT_PHYS
            )
            try:
                report = replayer.load_trusted(data, root.raw, HERE)
            except ReplayError as error:
                report = error.report
            assert report.name == status.name


def test_there_are_enough_of_them() -> None:
    assert sum(case.status is not Status.OK for case in CASES.values()) >= 80
    assert {case.status for case in CASES.values()} >= {
        status for status in Status if status.name.startswith("TRUST")
    }
