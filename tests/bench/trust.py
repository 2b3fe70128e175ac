# SPDX-License-Identifier: BSD-2-Clause
"""`python -m tests.bench.trust`: what a trust policy costs a firmware, in bytes and instructions.

Instructions are those that the emulated board's CPU executes until a small trace has been verified, as QEMU counts
them; it is verified twice, with a policy as with a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from host_tools import runners
from host_tools.runners import firmware
from host_tools.runners.replay import ReplayRequest
from signing.delivery import Delivery
from signing.sign import FileSigner, sign_trace
from signing.trust import Anchor
from tests.support import replayer_samples as s
from tests.support import trust_samples as t
from tests.support.trust_samples import HYBRIDS, MIXED, TRACERS, policy, rule

TRACE = s.trace(meta={"name": "net"}).build()


def under(count: int, newer: int = 0, signers: Sequence[FileSigner] = TRACERS) -> bytes:
    """The small trace with signatures of `count` keys, and newer versions of the policy."""
    links = [t.signed_policy(replace(policy(), version=2 + number)) for number in range(newer)]
    return t.join(TRACE, t.signatures(TRACE, signers[:count]), links)


CASES: dict[str, tuple[Anchor, bytes]] = {
    "one key": (s.KEY, sign_trace(TRACE, s.ES256)),
    "policy, 1 of 3": (policy(rule(threshold=1)), under(1)),
    "policy, 2 of 3": (policy(), under(2)),
    "policy, 3 of 3": (policy(rule(threshold=3)), under(3)),
    "2 of 3, a newer policy": (policy(), under(2, 1)),
    "2 of 3, three newer ones": (policy(), under(2, 3)),
    "a hybrid key, 1 of 3": (
        policy(rule(threshold=1, signers=MIXED), keys=t.hybrid_policy().keys),
        under(1, signers=HYBRIDS),
    ),
    "hybrid keys, 2 of 3": (t.hybrid_policy(), under(2, signers=HYBRIDS)),
}


def main() -> None:
    """Print the table."""
    print(f"{'':26}{'firmware':>10}{'own code':>10}{'in front of the trace':>23}{'verify':>14}")
    for words, (anchor, data) in CASES.items():
        built = firmware.build(anchor, "v3d42")
        sizes = firmware.sizes(built.folder)
        request = ReplayRequest(Delivery(data), anchor, gpu="v3d42", firmware=built.folder)
        found = runners.run("qemu", request)
        if not found.ok or found.instructions is None:
            raise SystemExit(f"{words}: {found.error}")
        print(
            f"{words:26}{sizes['in all, code and constants']:10,}{sizes['our own code']:10,}"
            f"{len(data) - len(TRACE):23,}{found.instructions.verify:14,}"
        )


if __name__ == "__main__":
    main()
