# SPDX-License-Identifier: BSD-2-Clause
"""Firmware images for QEMU's machine "virt": TF-A, OP-TEE's core with a pseudo-TA, the normal world's program.

They are kept in the user's cache folder.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path

from host_tools.families.family import profile_of
from host_tools.runners.optee.build import (
    CORE_BINARIES,
    CROSS,
    TFA_BINARIES,
    core_of,
    digest_of,
    run_program,
    tfa_build,
)
from host_tools.runners.replay import RunnerError
from host_tools.support.cache import cache_dir, written_whole
from host_tools.support.gpu_folders import DEFAULT_GPU
from host_tools.support.sources import BARE_METAL, REPLAYER
from signing.trust import Anchor
from signing.trust_verdict import NO_ID
from tee_replayer.crypto import Libraries
from tee_replayer.generator.boards import OPTEE
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import NO_DECRYPTION, Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.strictness import WARNINGS
from trace_format.emit import GENERATED
from trace_format.files import read_file, read_file_text
from trace_format.operators import Operator
from trace_format.schema.trust import KeyKind

MIB = 1 << 20
FIP_AT = 256 << 10  # in the flash image: PLAT_QEMU_FIP_BASE of TF-A's platform_def.h
BL33_FLAGS = (
    *("-std=c11", "-Os", "-ffreestanding", "-march=armv8-a", "-mgeneral-regs-only", "-mstrict-align", "-fno-pic"),
    *("-fno-stack-protector", "-fno-asynchronous-unwind-tables", *WARNINGS),
    *("-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none", "-Wl,--no-warn-rwx-segments"),
)
NORMAL_WORLD = "normal_world.c"
SETTING = re.compile(r"^GRAMOPHONE_(\w+) \?= (0x[0-9a-f]+|\d+)$", re.MULTILINE)  # of sub.mk
TA_ONLY = "GRAMOPHONE_TA_ONLY ?= y"
MIN_CARVEOUT_BYTES = 256 * MIB  # so that few images serve many traces


@dataclass(frozen=True)
class Board:
    """Where the pseudo-TA expects what: GRAMOPHONE_ in its sub.mk."""

    gpu_base: int
    gpu_intid: int
    carveout_base: int
    carveout_bytes: int
    firewall_base: int
    staging_bytes: int = 0


@dataclass(frozen=True)
class Image:
    """A flash image for the reset address."""

    path: Path
    board: Board


def image_for_key(
    key: Anchor,
    gpu: str = DEFAULT_GPU,
    min_security_version: int = 0,
    *,
    crypto: Libraries,
    operators: Collection[Operator] = (),
    algorithms: Collection[KeyKind] = (),
    device_id: bytes = NO_ID,
    decryption: Decryption = NO_DECRYPTION,
    streaming: bool = False,
    secure_bytes: int = 0,
    staged_bytes: int = 0,
    normal_world: Path | None = None,
) -> Image:
    """The image for a key, from the cache.

    Args:
        key: whose traces the pseudo-TA accepts.
        gpu: the virtual GPU.
        min_security_version: older traces are refused.
        crypto: the crypto libraries' sources.
        operators: what it computes on the CPU.
        algorithms, device_id, decryption, streaming: as `tee_replayer.generator.options.Options`.
        secure_bytes: memory that the replayer must have at least.
        staged_bytes: of the signed trace, or of all its slots; what is larger.
        normal_world: as `image_of`.

    Raises:
        GramophoneError: no ES256 key, a source cannot be obtained, or it does not compile; see `image_of`.
    """
    # generate() gives the staging area a quarter.
    need = max(-(-secure_bytes // 3) * 4, staged_bytes * 4)
    with tempfile.TemporaryDirectory(dir=cache_dir("optee")) as name:
        folder = generate(
            Options(
                profile_of(gpu).name,
                platform_of(OPTEE),
                key,
                crypto,
                operators=operators,
                algorithms=algorithms,
                device_id=device_id,
                decryption=decryption,
                streaming=streaming,
                min_security_version=min_security_version,
                any_client=True,
                carveout_bytes=-(-need // MIN_CARVEOUT_BYTES) * MIN_CARVEOUT_BYTES or MIN_CARVEOUT_BYTES,
            ),
            Path(name) / "pta",
        )
        return image_of(folder, normal_world)


def image_of(pta: Path, normal_world: Path | None = None, ta_key: bytes = b"") -> Image:
    """The image with the pseudo-TA in `pta`, a folder that `generate` wrote for OP-TEE.

    Args:
        pta: the folder.
        normal_world: C source of the program in the normal world; without it our own, which serves the mailbox.
        ta_key: as `core_of`.

    Raises:
        RunnerError: no such folder, a program that is needed is missing, or something does not compile.
        RecordError: a source package cannot be obtained.
    """
    board = read_board(pta)
    core, tfa = core_of(pta, ta_key), tfa_build()
    bl33 = compile_normal_world(normal_world)
    parts = [*(tfa / name for name in TFA_BINARIES), *(core / name for name in CORE_BINARIES), bl33]
    path = cache_dir("optee", "images") / f"{digest_of((p.name, read_file(p)) for p in parts)}.bin"
    if not path.exists():
        bl1, bl2, bl31, header, pager, pageable, _ = map(str, parts)
        with written_whole(path) as temporary:
            fip = temporary.with_suffix(".fip")
            options = {"tb-fw": bl2, "soc-fw": bl31, "tos-fw": header, "tos-fw-extra1": pager}
            options |= {"tos-fw-extra2": pageable, "nt-fw": str(bl33)}
            flags = [text for name, file in options.items() for text in (f"--{name}", file)]
            run_program([str(tfa / "fiptool"), "create", *flags, str(fip)], "the firmware image package")
            temporary.write_bytes(read_file(Path(bl1)).ljust(FIP_AT, b"\0") + read_file(fip))
            fip.unlink()
    return Image(path, board)


def read_board(pta: Path) -> Board:
    """The numbers in a pseudo-TA's sub.mk; RunnerError when `pta` is not such a folder."""
    file = pta / "sub.mk"
    try:
        text = read_file_text(file)
    except OSError as error:
        raise RunnerError(f"{file}: {error.strerror}: 'gramophone generate' for OP-TEE writes it") from None
    found = {name.lower(): int(value, 0) for name, value in SETTING.findall(text)}
    try:
        return Board(*(found[field.name] for field in fields(Board)))
    except KeyError as error:
        raise RunnerError(f"{file}: expected a line GRAMOPHONE_{error.args[0].upper()}, found none") from None


def is_for_ta_only(pta: Path) -> bool:
    """Whether a pseudo-TA's sub.mk leaves sessions to the TA, as with a replay log."""
    file = pta / "sub.mk"
    return file.is_file() and TA_ONLY in read_file_text(file).splitlines()


def compile_normal_world(program: Path | None = None) -> Path:
    """A program for the normal world: its start-up, the client of OP-TEE, and `program` (without it ours)."""
    sources = [
        *(BARE_METAL / "optee" / "start.S", BARE_METAL / "string.S", BARE_METAL / "optee" / "tee_client.c"),
        program or BARE_METAL / "optee" / NORMAL_WORLD,
    ]
    folders = [BARE_METAL, BARE_METAL / "optee", REPLAYER / "optee", REPLAYER / "core", GENERATED]
    seen = [*folders, *([program.parent] if program else [])]
    known = [*sources, *(file for folder in seen for file in sorted(folder.glob("*.h")))]
    script = BARE_METAL / "optee" / "normal_world.ld"
    kept = cache_dir("optee", "normal-worlds") / (
        digest_of((p.name, read_file(p)) for p in [*known, script]) + ".bin"
    )
    if not kept.exists():
        with written_whole(kept) as temporary:
            elf = temporary.with_suffix(".elf")
            flags = [*BL33_FLAGS, *(f"-I{folder}" for folder in folders), "-T", str(script)]
            run_program([f"{CROSS}gcc", *flags, "-o", str(elf), *map(str, sources)], "the normal world")
            run_program([f"{CROSS}objcopy", "-O", "binary", str(elf), str(temporary)], "the normal world")
            elf.unlink()
    return kept
