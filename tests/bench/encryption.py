# SPDX-License-Identifier: BSD-2-Clause
"""`python -m tests.bench.encryption [lenet] [mobilenet]`: what an encrypted trace costs in bytes and instructions.

Instructions are those of loading on the emulated board, as QEMU counts them, once with AES instructions and once
without (`aes` of the board's constants). The key of the body is unwrapped once; the rest is the body's bytes. The
stack is the deepest that `audit-firmware` finds in the code; "+" where it cannot tell that nothing is deeper.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from host_tools import runners
from host_tools.accesses.observe import random_inputs
from host_tools.audit_firmware import target
from host_tools.audit_firmware.analysis import Analysis
from host_tools.audit_firmware.image import of_elf
from host_tools.passes.pipeline import build
from host_tools.runners import firmware, libraries
from signing import encryption
from signing.delivery import Delivery
from signing.trust import Anchor, Policy
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.bench import networks
from tests.support import encryption_samples as e
from tests.support import replayer_samples as s
from tests.support import trust_samples as t
from tests.support.trust_samples import HYBRIDS
from trace_format.trace import Trace

CARVEOUT_BYTES = 256 << 20
FLEET = Decryption(True, e.FLEET_BYTES)
HYBRID = t.hybrid_policy()


@dataclass(frozen=True)
class Kind:
    """A firmware and how a trace is made for it.

    Attributes:
        key: whose traces it takes.
        decryption: what it reads.
        aes: whether its core has the instructions.
    """

    key: Anchor = s.KEY
    decryption: Decryption = FLEET
    aes: int = 1

    @cached_property
    def firmware(self) -> firmware.Firmware:
        """For the emulated board."""

        def write(folder: Path) -> None:
            options = Options(
                "v3d42",
                platform_of("qemu-virt"),
                self.key,
                libraries.source(),
                carveout_bytes=CARVEOUT_BYTES,
                decryption=self.decryption,
            )
            header = generate(options, folder) / "board.h"
            header.write_text(header.read_text().replace("#define GR_AES 1", f"#define GR_AES {self.aes}"))

        return firmware.load(firmware.compiled_once(write))

    @cached_property
    def stack(self) -> str:
        """The most that its stack takes, in bytes; "+" if that is no bound."""
        image = of_elf(firmware.ELF, (self.firmware.folder / firmware.ELF).read_bytes())
        analysis = Analysis(image, target.of_image(image))
        deepest = max(
            (analysis.worst[entry] for entry in image.entries if entry in analysis.worst),
            key=lambda row: row.bytes,
        )
        return f"{deepest.bytes:,}{'' if deepest.is_bound else '+'}"

    def signed(self, plain: bytes) -> bytes:
        """A trace for it."""
        trace = encryption.encrypt(plain, [e.public(e.FLEET)]) if self.decryption.wanted else plain
        if isinstance(self.key, Policy):
            return t.join(trace, t.signatures(trace, HYBRIDS[:2]))
        return s.signed(trace)


KINDS = {
    "plain": Kind(decryption=Decryption()),
    "encrypted, AES instructions": Kind(),
    "encrypted, none": Kind(aes=0),
    "hybrid 2 of 3": Kind(HYBRID, Decryption()),
    "hybrid 2 of 3, encrypted": Kind(HYBRID),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table: of a trace that hardly has a body, and of networks."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.encryption", description=__doc__)
    parser.add_argument("names", nargs="*", default=["lenet"], help="networks: lenet, mobilenet, squeezenet")
    options = parser.parse_args(arguments)
    traces = {"the smallest": s.trace(meta={"name": "net"}).build()}
    for name in options.names:
        trace = build(Trace.parse(networks.raw_trace(name)))
        traces[name] = trace.with_(meta=trace.meta | {"name": "net"}).build()
    print(f"{'':14}{'':29}{'firmware':>9}{'stack':>8}{'file':>12}{'verify':>12}{'load':>13}{'more a byte':>13}")
    first: dict[str, tuple[int, int]] = {}
    for name, plain in traces.items():
        before = 0
        for words, kind in KINDS.items():
            data = kind.signed(plain)
            with encryption.reading_with([e.FLEET]):
                delivery = Delivery(data)
                inputs = random_inputs(delivery.parse(), networks.SEED)
                found = runners.run("qemu", delivery, kind.key, inputs, gpu="v3d42", firmware=kind.firmware.folder)
            if found.instructions is None or not found.ok:
                raise SystemExit(f"{name}, {words}: {found.error}")
            counted = found.instructions
            before = before or counted.load
            size = firmware.sizes(kind.firmware.folder)["in all, code and constants"]
            if words not in first:
                first[words] = counted.load - before, len(plain)
            rate = ""
            if kind.decryption.wanted and first[words][1] != len(plain):
                rate = f"{(counted.load - before - first[words][0]) / (len(plain) - first[words][1]):.2f}"
            print(
                f"{name:14}{words:29}{size:9,}{kind.stack:>8}{len(data):12,}"
                f"{counted.verify:12,}{counted.load:13,}{rate:>13}"
            )


if __name__ == "__main__":
    main()
