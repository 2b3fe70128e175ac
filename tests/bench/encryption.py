# SPDX-License-Identifier: BSD-2-Clause
"""`python -m tests.bench.encryption [lenet] [mobilenet]`: what an encrypted trace costs in bytes and instructions.

Instructions are those of loading on the emulated board, as QEMU counts them, once with AES instructions and once
without (`aes` of the board's constants). The key of the body is unwrapped once; the rest is the body's bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from host_tools import runners
from host_tools.passes.pipeline import build
from host_tools.runners import firmware, libraries
from host_tools.runners.replay import ReplayRequest
from signing import encryption
from signing.delivery import Delivery
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.bench import networks
from tests.support import encryption_samples as e
from tests.support import replayer_samples as s
from trace_format.trace import Trace

CARVEOUT_BYTES = 256 << 20
KINDS = {
    "plain": (Decryption(), 1),
    "encrypted, AES instructions": (Decryption(True, e.FLEET_BYTES), 1),
    "encrypted, none": (Decryption(True, e.FLEET_BYTES), 0),
}


def made(decryption: Decryption, aes: int) -> firmware.Firmware:
    """The firmware of the emulated board, with AES instructions or without."""

    def write(folder: Path) -> None:
        options = Options(
            "v3d42",
            platform_of("qemu-virt"),
            s.KEY,
            libraries.source(),
            carveout_bytes=CARVEOUT_BYTES,
            decryption=decryption,
        )
        header = generate(options, folder) / "board.h"
        header.write_text(header.read_text().replace("#define GR_AES 1", f"#define GR_AES {aes}"))

    return firmware.load(firmware.compiled_once(write))


def loaded(trace: bytes, built: firmware.Firmware) -> int:
    """Instructions of loading."""
    request = ReplayRequest(Delivery(s.signed(trace)), s.KEY, gpu="v3d42", firmware=built.folder)
    found = runners.run("qemu", request)
    if found.instructions is None:
        raise SystemExit(found.error)
    return found.instructions.load


def main() -> None:
    """Print the table."""
    names = sys.argv[1:] or ["lenet"]
    traces = {"the smallest": e.plain()}
    traces |= {name: build(Trace.parse(networks.raw_trace(name))).build() for name in names}
    print(f"{'':14}{'':30}{'firmware':>10}{'file':>12}{'load':>14}{'more a byte':>13}")
    first: dict[str, tuple[int, int]] = {}
    for name, plain in traces.items():
        closed = encryption.encrypt(plain, [e.public(e.FLEET)])
        before = 0
        for words, kind in KINDS.items():
            built, data = made(*kind), closed if kind[0].wanted else plain
            with encryption.reading_with([e.FLEET]):
                load = loaded(data, built)
            before = before or load
            size = firmware.sizes(built.folder)["in all, code and constants"]
            rate = ""
            if words not in first:
                first[words] = load - before, len(plain)
            elif kind[0].wanted:
                rate = f"{(load - before - first[words][0]) / (len(plain) - first[words][1]):.2f}"
            print(f"{name:14}{words:30}{size:10,}{len(data):12,}{load:14,}{rate:>13}")


if __name__ == "__main__":
    main()
