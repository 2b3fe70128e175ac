# SPDX-License-Identifier: BSD-2-Clause
"""What a replayer for a process of Linux has besides the core: the UIO port, library, command, Python binding.

It is of no board: the process finds the GPU and the carve-out in the device tree that its kernel was given.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import ClassVar

from tee_replayer.crypto import Libraries
from tee_replayer.generator.device_crypto import DeviceCrypto
from tee_replayer.generator.generated_folder import filled
from tee_replayer.generator.options import GenerateError, Options
from trace_format.errors import ProfileError
from trace_format.licence import SPDX
from trace_format.profile import Profile

PLATFORM = "linux"
HERE = Path(__file__).resolve().parents[1] / "linux"


@dataclass(frozen=True)
class Linux:
    """The platform of a process of Linux.

    Attributes:
        polls: its port polls the GPU's status, so a GPU may have several interrupts.
    """

    polls: bool = False
    name: ClassVar = PLATFORM
    notice: ClassVar = ""
    in_optee: ClassVar = False
    has_secret: ClassVar = False

    def fitted(self, options: Options) -> Linux:
        """As Platform: there is no option to fit to."""
        if not self.polls:
            check(options.profile)
        for given, reason in (
            (options.carveout_bytes, "the device tree says how large the carve-out is (carveout.dtso)"),
            (options.share_gpu, "'gramophone-gpu give-back' gives the GPU back"),
            (options.any_client, "who may use the GPU, the kernel says (70-gramophone.rules)"),
            (options.policy, "it takes no client policy: only the TA of OP-TEE has one"),
            (options.gpu_firmware, "it takes no firmware of a GPU yet: bare metal does"),
            (options.evidence.log, "a process has nowhere to keep a secret and a log from the machine's root"),
            (options.decryption.wanted, "the machine's root sees all that a process decrypts"),
            (options.rollback_store, "whoever is root there could set its versions back"),
            (options.clock, "whoever is root there sets the clock"),
            (options.operators, "its replayer has no operators on the CPU"),
            (options.mmu is not None, "Linux has the MMU"),
        ):
            if given:
                raise GenerateError(f"platform {PLATFORM}: {reason}")
        return self

    def write(self, options: Options, folder: Path) -> None:
        """As Platform."""
        write(options.profile, folder, options.libraries, options.cryptography)


def check(profile: Profile) -> None:
    """Raise ProfileError for a GPU that UIO cannot hand out."""
    lines = profile.interrupts
    if len(lines) != 1:
        raise ProfileError(
            f"{profile.name} has {len(lines)} interrupts ({', '.join(lines)}), and the kernel's UIO driver "
            f"(uio_pdrv_genirq) hands out one: there is no replayer for it on the platform {PLATFORM}"
        )


def write(profile: Profile, folder: Path, libraries: Libraries, cryptography: DeviceCrypto) -> None:
    """Write the port.

    Args:
        profile: of the GPU; `check` has passed it.
        folder: to write to; it has replayer.c, replayer.h and LICENSE.
        libraries: the crypto libraries, both of them.
        cryptography: what of them.
    """
    cryptography.write(folder, libraries)
    blocks = [name for name, block in profile.blocks.items() if not block.board]
    values = {
        "@CRYPTO@": " ".join(f"aws-lc/{Path(name).with_suffix('.o')}" for name in cryptography.aws_lc),
        "@BLOCK@": blocks[0],
    }
    for source in HERE.iterdir():
        if source.is_file():
            (folder / source.name).write_text(filled(source, values), encoding="utf-8")
    (folder / "linux_target.h").write_text(_target(profile, blocks), encoding="utf-8")
    string = (resources.files("baremetal") / "string.S").read_bytes()
    (folder / "string.S").write_bytes(string)
    shutil.copymode(HERE / "Makefile", folder / "Makefile")


def _target(profile: Profile, blocks: list[str]) -> str:
    """The GPU's registers as the device tree has them."""
    rows = ", ".join(
        f'{{"{name}", {profile.blocks[name].base:#06x}u, {profile.blocks[name].bytes:#06x}u}}' for name in blocks
    )
    return (
        f"/* {SPDX} */\n"
        f"/* {profile.title}: from the GPU profile {profile.name}.toml; do not edit. */\n"
        "#ifndef GRAMOPHONE_LINUX_TARGET_H\n#define GRAMOPHONE_LINUX_TARGET_H\n\n"
        f'#define GR_GPU_TITLE "{profile.title}"\n'
        f"#define GR_WINDOW_BYTES {profile.window_bytes:#06x}u\n"
        "/* Blocks of registers: name in the device tree's reg-names, offset in the window, bytes. */\n"
        f"#define GR_BLOCKS {rows}\n"
        f'#define GR_BLOCK_NAMES "{", ".join(blocks)}"\n\n#endif\n'
    )
