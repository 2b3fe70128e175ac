# SPDX-License-Identifier: BSD-2-Clause
"""What a replayer for OP-TEE has besides the core: the pseudo-TA, and what calls it.

SHA-256 is that of OP-TEE's core, which takes the Armv8 instructions where it was built so. Signatures are verified
as on bare metal: the core's verification takes a hundred times the instructions (docs/adr/0017-s2n-bignum.md). For
a replay log BearSSL signs: deterministically, and with a way from a secret to its public key, which the core's
interface has not.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from tee_replayer.crypto import Libraries
from tee_replayer.features import operators as operator_sources
from tee_replayer.generator.board_fit import OnBoard, copy_description, fitted_board
from tee_replayer.generator.boards import Board
from tee_replayer.generator.device_crypto import DeviceCrypto
from tee_replayer.generator.generated_folder import filled
from tee_replayer.generator.interrupts import LISTED, interrupt_of, packed
from tee_replayer.generator.options import GenerateError, Options
from trace_format import limits
from trace_format.emit import GENERATED
from trace_format.errors import listed
from trace_format.files import read_file, read_file_text
from trace_format.licence import SPDX
from trace_format.operators import Operator

PARTS = {"ta": ["gramophone_commands.h"], "client": []}  # besides the pseudo-TA, and what they share with it alone
POLICY = "policy.h"  # of the TA
SHARING = "gramophone_pta_sharing.c"  # of the pseudo-TA
STREAMING = "gramophone_pta_streaming.c"
CAN_MAP = 2 << 20  # OP-TEE's core maps large areas in units of so many bytes
SPI_BASE = 32  # interrupt id of the first shared peripheral interrupt
HERE = Path(__file__).resolve().parents[1] / "optee"
_SETTINGS = "sub.mk"
_INCLUDE = {"bearssl": ("inc", "src"), "aws-lc": ("s2n-bignum/include", "include", "mldsa")}
_FLOATING_POINT = f"""
# The only part with floating point: what operators compute.
srcs-y += {operator_sources.SOURCE}
cflags-remove-{operator_sources.SOURCE}-y += -mgeneral-regs-only
cflags-{operator_sources.SOURCE}-y += -ffp-contract=off
"""


@dataclass(frozen=True)
class OpTee(OnBoard):
    """The platform of a board that runs OP-TEE; once fitted it has the TA's policy."""

    policy: bytes = b""
    in_optee: ClassVar = True
    has_secret: ClassVar = True  # it follows from the hardware unique key

    def fitted(self, options: Options) -> OpTee:
        """As Platform; OSError when a policy cannot be read."""
        if options.gpu_firmware:
            raise GenerateError(f"{self.board.name}: OP-TEE takes no firmware of a GPU yet: bare metal does")
        if options.rollback_store:
            raise GenerateError(
                f"{self.board.name}: the TA keeps versions in secure storage, by its client policy (ta/policy.h)"
            )
        if options.clock:
            raise GenerateError(
                f"{self.board.name}: OP-TEE's only clock is the normal world's, which sets it as it likes"
            )
        board = fitted_board(self.board, options)
        carveout = board.memory["carveout"]
        if carveout.base % CAN_MAP or carveout.bytes % CAN_MAP:
            raise GenerateError(f"{board.file}: memory.carveout ({carveout}): OP-TEE takes multiples of 2 MiB")
        if options.share_gpu and "firewall" not in board.devices:
            raise GenerateError(f"{board.file}: the GPU cannot be shared without devices.firewall")
        if options.any_client and options.evidence.log:
            raise GenerateError(
                "any_client cannot be combined with a replay log: the log's tail comes from the TA"
            )
        return replace(self, board=board, policy=_policy(options.policy))

    def write(self, options: Options, folder: Path) -> None:
        """As Platform."""
        write(options, self.board, folder, self.policy)
        write_crypto(folder, options.libraries, options.cryptography)
        if options.evidence.log:
            add_log(folder)
        if options.networks:
            shutil.copyfile(HERE / "sharing" / SHARING, folder / SHARING)
        if options.streaming:
            shutil.copyfile(HERE / "streaming" / STREAMING, folder / STREAMING)
        if options.operators:
            add_operators(folder, options.operators)
        copy_description(self.board, folder)


def write(options: Options, board: Board, folder: Path, policy: bytes) -> None:
    """Write the pseudo-TA, and in self-contained folders what calls it: the TA, the normal world's library.

    Args:
        options: the GPU's profile, who has the GPU between sessions, who may open one.
        board: which; it runs OP-TEE.
        folder: to write to; it has replayer.c, replayer.h and LICENSE.
        policy: the TA's policy.h.
    """
    carveout = board.memory["carveout"]
    values = {
        "@GPU@": f"{board.devices['gpu'].base:#010x}",
        "@WINDOW@": f"{options.profile.window_bytes:#x}",
        "@LINES@": str(len(options.profile.interrupts)),
        "@INTID@": _intid(board.constants["gpu_spi"], len(options.profile.interrupts)),
        "@GICD@": f"{board.devices['gic'].base:#010x}",
        "@CARVEOUT_BASE@": f"{carveout.base:#x}",
        "@CARVEOUT_BYTES@": f"{carveout.bytes:#x}",
        "@STAGING@": f"{carveout.bytes // 4:#x}",
        "@FIREWALL@": f"{board.devices['firewall'].base if options.share_gpu else 0:#x}",
        "@TA_ONLY@": "n" if options.any_client else "y",
    }
    for source in _files(HERE):
        (folder / source.name).write_text(filled(source, values), encoding="utf-8")
    shutil.copyfile(GENERATED / "gramophone_optee.h", folder / "gramophone_optee.h")
    shared = [folder / name for name in ("LICENSE", "replayer.h", "gramophone_pta.h", "gramophone_optee.h")]
    shared += [GENERATED / "gramophone_trace.h", HERE / "ta" / "gramophone_ta.h"]
    for part, more in PARTS.items():
        (folder / part).mkdir()
        for source in [*_files(HERE / part), *shared, *(folder / name for name in more)]:
            shutil.copyfile(source, folder / part / source.name)
    (folder / "ta" / POLICY).write_bytes(policy)


def add_log(folder: Path) -> None:
    """Give a pseudo-TA a replay log: further sources and settings.

    Args:
        folder: that `write` wrote to.
    """
    shutil.copyfile(HERE / "log" / "gramophone_pta_log.c", folder / "gramophone_pta_log.c")
    more = (HERE / "log" / _SETTINGS).read_text(encoding="utf-8").removeprefix(f"# {SPDX}\n")
    with (folder / _SETTINGS).open("a", encoding="utf-8") as settings:
        settings.write(more)


def add_operators(folder: Path, operators: Collection[Operator]) -> None:
    """Give a pseudo-TA what it computes on the CPU; OP-TEE's core must have CFG_WITH_VFP, as it has by default.

    Args:
        folder: that `write` wrote to.
        operators: at least one.
    """
    operator_sources.write(folder, operators)
    with (folder / _SETTINGS).open("a", encoding="utf-8") as settings:
        settings.write(_FLOATING_POINT)


def write_crypto(folder: Path, libraries: Libraries, cryptography: DeviceCrypto) -> None:
    """Write the libraries' part of the cryptography; SHA-256 is the core's.

    Args:
        folder: that `write` wrote to.
        libraries: the crypto libraries, both of them.
        cryptography: what of them.
    """
    cryptography.write(folder, libraries)
    settings = read_file_text(folder / _SETTINGS)
    for library, names in (("aws-lc", cryptography.aws_lc), ("bearssl", cryptography.bearssl)):
        if not names:
            continue
        include = [f"-isystem $(sub-dir)/{name}" for name in _INCLUDE[library]]
        text = f"# {SPDX}\n" + "".join(f"srcs-y += {name}\n" for name in names)
        text += f"cflags-y += -w -Os\ncppflags-y += {' '.join(include)}\n"
        (folder / library / _SETTINGS).write_text(text, encoding="utf-8")
        here = [f"-isystem $(sub-dir)/{library}/{name}" for name in _INCLUDE[library]]
        settings += f"\nsubdirs-y += {library}\ncppflags-y += {' '.join(here)}\n"
    (folder / _SETTINGS).write_text(settings, encoding="utf-8")


def _policy(path: Path | None) -> bytes:
    """A policy.h; GenerateError when it lacks what the TA takes from it."""
    if path is None:
        return (HERE / "ta" / POLICY).read_bytes()
    text = read_file(path, limits.SMALL_BYTES)
    missing = [name for name in ("policy_clients", "policy_traces", "POLICY_STORAGE") if name.encode() not in text]
    if missing:
        raise GenerateError(f"{path}: a TA's {POLICY}: expected {listed(missing)}, found none")
    return text


def _intid(gpu_spi: int, lines: int) -> str:
    """GRAMOPHONE_GPU_INTID of a board's gpu_spi."""
    number = packed([SPI_BASE + interrupt_of(gpu_spi, line) for line in range(lines)])
    return str(number) if number < LISTED else hex(number)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file()]
