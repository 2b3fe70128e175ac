# SPDX-License-Identifier: BSD-2-Clause
"""What a named case of trust policies is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from signing.cose_sign import Signatures
from signing.sign import entries
from signing.trust import Policy
from signing.trust_chain import Signed
from signing.trust_verdict import Judge
from tests.support.trust_samples import DEVICE_ID, PLATFORM, ROOTS, policy
from trace_format.schema.report import Status

HERE = Judge(PLATFORM, DEVICE_ID)


@dataclass(frozen=True)
class Case:
    """A file and who judges it.

    Attributes:
        make: the file.
        status: what comes of it.
        root: the device's own policy.
        where: what the device knows.
        malformed: bytes that the device has for its own policy instead, and that the host refuses to read.
    """

    make: Callable[[], bytes]
    status: Status
    root: Policy = field(default_factory=policy)
    where: Judge = HERE
    malformed: bytes = b""


def resigned(payload: bytes) -> Signed:
    """Any payload, signed by two roots."""
    given = {one.kid: entries(one, payload, "a policy") for one in ROOTS[:2]}
    return Signed(policy(version=2), payload, Signatures(given, payload))
