# SPDX-License-Identifier: BSD-2-Clause
"""`python -m tests.bench.trust`: what a trust policy costs a firmware, in bytes and instructions.

Instructions are those that the emulated board's CPU executes until a small trace has been verified, as QEMU counts
them; it is verified twice, with a policy as with a key.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from host_tools import runners
from host_tools.runners import firmware, libraries
from signing.delivery import Delivery
from signing.sign import FileSigner, sign_trace
from signing.trust import Anchor
from tee_replayer.generator.boards import QEMU_VIRT
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import replayer_samples as s
from tests.support import trust_samples as t
from tests.support.trust_samples import EDWARDIAN, EDWARDS, HYBRIDS, MIXED, TRACERS, WIDE, WIDER, policy, rule

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
    "a key of ES384, 1 of 3": (
        policy(rule(threshold=1, signers=WIDER), keys=t.wide_policy().keys),
        under(1, signers=WIDE),
    ),
    "ES384 and ES256, 2 of 3": (t.wide_policy(), under(2, signers=WIDER)),
    "a key of Ed25519, 1 of 3": (
        policy(rule(threshold=1, signers=EDWARDIAN), keys=t.edwards_policy().keys),
        under(1, signers=EDWARDS),
    ),
    "Ed25519 and ES256, 2 of 3": (t.edwards_policy(), under(2, signers=EDWARDIAN)),
    "hybrid keys, 2 of 3": (t.hybrid_policy(), under(2, signers=HYBRIDS)),
}
# What only some boards have a place for.
PLACES = (("one key", "rollback_store"), ("policy, 2 of 3", "rollback_store"), ("policy, 2 of 3", "clock"))


def main() -> None:
    """Print the table."""
    print(f"{'':26}{'firmware':>10}{'own code':>10}{'in front of the trace':>23}{'verify':>14}")
    for words, (anchor, data) in CASES.items():
        folder = firmware.build(anchor, "v3d42").folder
        row(words, data, anchor, folder)
    with tempfile.TemporaryDirectory() as name:
        for number, (case, option) in enumerate(PLACES):
            anchor, data = CASES[case]
            words = f"{case.removeprefix('policy, ')}, {option.replace('_', ' ')}"
            flash = Path(name) / str(number) if option == "rollback_store" else None
            folder = with_options(anchor, **{option: True})
            row(words, data, anchor, folder, flash)


def with_options(anchor: Anchor, **options: Any) -> Path:
    """Firmware with what only some boards have a place for."""

    def write(folder: Path) -> None:
        generate(Options("v3d42", platform_of(QEMU_VIRT), anchor, libraries.source(), **options), folder)

    return firmware.compiled_once(write)


def row(words: str, data: bytes, anchor: Anchor, folder: Path, flash: Path | None = None) -> None:
    """Print one."""
    found = runners.run("qemu", Delivery(data), anchor, gpu="v3d42", firmware=folder, flash=flash)
    if not found.ok or found.instructions is None:
        raise SystemExit(f"{words}: {found.error}")
    sizes = firmware.sizes(folder)
    print(
        f"{words:26}{sizes['in all, code and constants']:10,}{sizes['our own code']:10,}"
        f"{len(data) - len(TRACE):23,}{found.instructions.verify:14,}"
    )


if __name__ == "__main__":
    main()
