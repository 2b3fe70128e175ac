# SPDX-License-Identifier: BSD-2-Clause
"""`python -m tests.bench.evidence`: what a replay log and attestations cost a firmware, in bytes and instructions.

Instructions are all that the firmware executes from reset to its end, counted in Unicorn by basic blocks, for a
small trace with an input of 24 bytes. A boot with the log hashes the firmware, which depends on its size.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from unicorn import UC_HOOK_BLOCK

from host_tools.runners import firmware, libraries
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import replayer_samples as s
from tests.support.log_samples import SECRET
from tests.support.logging_boot import boot

NONCE = bytes(32)
CHOICES = {
    "nothing": Evidence(),
    "log": Evidence(log=True),
    "log, hashes": Evidence(log=True, hashes=True),
    "log, attestation": Evidence(log=True, attestation=True),
    "log, hashes, attestation": Evidence(log=True, hashes=True, attestation=True),
}


def instructions(folder: Path, store: Path | None, nonce: bytes | None = None, repeat: int = 1) -> int:
    """Instructions of one boot of a firmware, with this many replays."""
    executed = 0

    def block(_uc: Any, _at: int, size: int, _user: Any) -> None:
        nonlocal executed
        executed += size // 4

    report = boot(
        folder, store, lambda engine, _: engine.hook_add(UC_HOOK_BLOCK, block), nonce=nonce, repeat=repeat
    )
    if not report.ok:
        raise SystemExit(f"{folder}: {report.describe(s.trace().profile)}")
    return executed


def main() -> None:
    """Print the table."""
    print(f"{'':26}{'bytes':>8}{'own code':>10}{'boot, load':>13}{'a replay':>11}{'attestation':>13}")
    plain = plain_replay = 0
    with tempfile.TemporaryDirectory() as name:
        store = Path(name)
        (store / "device.secret").write_bytes(SECRET)
        for words, choice in CHOICES.items():
            out = store / words.replace(", ", "-")
            generate(Options("v3d42", platform_of("qemu-virt"), s.KEY, libraries.source(), evidence=choice), out)
            firmware.compile_firmware(out)
            sizes = firmware.sizes(out)
            kept = store if choice.log else None
            once = instructions(out, kept)
            replay = instructions(out, kept, repeat=2) - once
            plain, plain_replay = plain or once - replay, plain_replay or replay
            attested = instructions(out, kept, NONCE) - once if choice.attestation else 0
            row = (once - replay - plain, replay - plain_replay, attested)
            print(
                f"{words:26}{sizes['in all, code and constants']:8,}{sizes['our own code']:10,}"
                f"{row[0]:+13,}{row[1]:+11,}{row[2]:+13,}"
            )


if __name__ == "__main__":
    main()
