# SPDX-License-Identifier: BSD-2-Clause
"""`python -m tests.bench.profiles`: bytes of flash of each supported set of features, on the emulated board."""

from __future__ import annotations

from pathlib import Path

from host_tools.runners import firmware, libraries
from tee_replayer.generator import profiles
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import replayer_samples as s
from tests.support import trust_samples as t

GPUS = ("v3d42", "mali_g71")
NAMES = tuple(name for name in profiles.load() if name != "optee")  # a part of OP-TEE's core


def bytes_of(name: str, gpu: str) -> int:
    """Size of a profile's firmware.bin."""
    features = profiles.named(name).features
    options = Options(
        gpu,
        platform_of("qemu-virt"),
        t.policy() if features.trust else s.KEY,
        libraries.source(),
        decryption=Decryption(features.encryption),
        **features.options,
    )

    def write(folder: Path) -> None:
        generate(options, folder)

    return (firmware.compiled_once(write) / firmware.BINARY).stat().st_size


def main() -> None:
    """Print the table."""
    print(f"{'':12}" + "".join(f"{gpu:>12}" for gpu in GPUS))
    for name in NAMES:
        print(f"{name:12}" + "".join(f"{bytes_of(name, gpu):>12,}" for gpu in GPUS))


if __name__ == "__main__":
    main()
