# SPDX-License-Identifier: BSD-2-Clause
"""`python -m tests.bench.profiles`: bytes of flash of each supported set of features, on the emulated board."""

from __future__ import annotations

from host_tools.runners import firmware
from tests.support.profile_firmware import NAMES, folder_of

GPUS = ("v3d42", "mali_g71")


def main() -> None:
    """Print the table."""
    print(f"{'':12}" + "".join(f"{gpu:>12}" for gpu in GPUS))
    for name in NAMES:
        sizes = ((folder_of(name, gpu) / firmware.BINARY).stat().st_size for gpu in GPUS)
        print(f"{name:12}" + "".join(f"{size:>12,}" for size in sizes))


if __name__ == "__main__":
    main()
