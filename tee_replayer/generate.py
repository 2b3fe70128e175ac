# SPDX-License-Identifier: BSD-2-Clause
"""Generates the replayer for one GPU, platform and key: sources, Makefile and the crypto library's files.

A bare-metal folder is self-contained: `make -C out` needs a cross compiler and nothing of this project. That for
OP-TEE becomes a part of OP-TEE's core, and uses the core's crypto.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from signing.keys import Algorithm, PublicKey
from tee_replayer import amalgamate, bare_metal, boards, crypto
from tee_replayer.boards import Optee
from tee_replayer.device import Device
from trace_format import profile as profiles
from trace_format.emit import GENERATED
from trace_format.errors import GramophoneError
from trace_format.licence import COPYRIGHT, SPDX
from trace_format.profile import Profile
from trace_format.schema import PAGE_BYTES, VERSION_MAJOR, VERSION_MINOR

OPTEE_PARTS = ("ta", "client")  # besides the pseudo-TA
HERE = Path(__file__).resolve().parent


class GenerateError(GramophoneError):
    """What was requested cannot be generated."""


def generate(
    gpu: str,
    platform: str,
    key: PublicKey,
    out: Path,
    *,
    bearssl: Path | None = None,
    min_security_version: int = 0,
    carveout_bytes: int | None = None,
    share_gpu: bool = False,
) -> Path:
    """Write a replayer's sources.

    Args:
        gpu: name of the GPU profile.
        platform: one of `boards.names()`.
        key: whose traces the device accepts.
        out: folder; made, or replaced when it is one that this function wrote.
        bearssl: BearSSL's source tree, for platforms other than OP-TEE.
        min_security_version: older traces are refused.
        carveout_bytes: secure memory for traces, a multiple of 4096; without it the platform's own size.
        share_gpu: the normal world has the GPU between sessions (OP-TEE, on a board with a firewall for it).

    Returns:
        `out`.

    Raises:
        GenerateError: unknown platform, a key of another kind than ES256, an odd size, or `out` holds something
            else.
        ProfileError: unknown GPU.
    """
    profile = profiles.load(gpu)
    if platform not in boards.names():
        raise GenerateError(f"no platform {platform!r}; there are: {', '.join(boards.names())}")
    board = boards.load(platform)
    if board.gpu and board.gpu.profile != gpu:
        raise GenerateError(f"the GPU of {platform} is {board.gpu.profile}, not {gpu}")
    if key.algorithm is not Algorithm.ES256:
        raise GenerateError(
            f"the key is an {key.algorithm.title} key, and this device build verifies ES256 only: "
            "sign with a P-256 key ('gramophone keygen' makes one)"
        )
    if not 0 <= min_security_version < 1 << 32:
        raise GenerateError(f"security version {min_security_version} is out of range: expected 0 to 2^32 - 1")
    if carveout_bytes is not None and (carveout_bytes <= 0 or carveout_bytes % PAGE_BYTES):
        raise GenerateError(
            f"the carve-out is of {carveout_bytes} bytes: expected a multiple of {PAGE_BYTES} above 0"
        )
    if board.optee:
        bearssl = None
        library = "OP-TEE's core crypto"
        if carveout_bytes and carveout_bytes % board.optee.carveout_step:
            raise GenerateError(f"the carve-out is of {carveout_bytes} bytes: OP-TEE takes multiples of 2 MiB")
    elif share_gpu:
        raise GenerateError(f"on {platform} the GPU cannot be shared with the normal world: OP-TEE hands it over")
    elif bearssl is None:
        raise GenerateError(f"the platform {platform} needs BearSSL's source")
    else:
        library = f"BearSSL {crypto.version(bearssl)}"
    if out.exists() and not (out.is_dir() and (not any(out.iterdir()) or (out / "replayer.c").is_file())):
        raise GenerateError(f"{out} exists and is not a generated replayer; name another folder")
    notice = (
        f"/* {SPDX} */\n"
        f"/* {COPYRIGHT}\n"
        " *\n"
        f" * Gramophone replayer for {profile.title} on {platform}; generated, do not edit.\n"
        f" *   trace format      {VERSION_MAJOR}.{VERSION_MINOR}\n"
        f" *   GPU profile       {profile.name} {profile.profile_id:#018x}\n"
        f" *   key               ES256 {key.kid.hex()}\n"
        f" *   security version  at least {min_security_version}\n"
        f" *   crypto            {library}\n"
        f"{board.notice}"
        " */"
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as name:
        work = Path(name) / "new"
        work.mkdir()
        shutil.copyfile(HERE / "LICENSE", work / "LICENSE")
        device = Device(platform, profile.profile_id, min_security_version, key)
        (work / "replayer.h").write_text(amalgamate.header(notice, device.declaration()), encoding="utf-8")
        (work / "replayer.c").write_text(amalgamate.source(profile, notice, device.definition()), encoding="utf-8")
        if bearssl is None:
            assert board.optee
            _copy_pseudo_ta(profile, board.optee, work, carveout_bytes or board.optee.carveout_bytes, share_gpu)
        else:
            bare_metal.write(board, work, bearssl, carveout_bytes)
        if out.exists():
            os.rename(out, Path(name) / "old")
        os.rename(work, out)
    return out


def _copy_pseudo_ta(profile: Profile, optee: Optee, work: Path, carveout_bytes: int, share_gpu: bool) -> None:
    """The pseudo-TA, and in self-contained folders what calls it: the TA, the normal world's library."""
    values = {
        "@WINDOW@": f"{profile.window_bytes:#x}",
        "@LINES@": str(len(profile.interrupts)),
        "@CARVEOUT@": f"{carveout_bytes:#x}",
        "@STAGING@": f"{carveout_bytes // 4:#x}",
        "@FIREWALL@": f"{optee.firewall_base if share_gpu else 0:#x}",
    }
    for source in _files(HERE / "optee"):
        text = source.read_text(encoding="utf-8")
        for mark, value in values.items():
            text = text.replace(mark, value)
        (work / source.name).write_text(text, encoding="utf-8")
    shutil.copyfile(GENERATED / "gramophone_optee.h", work / "gramophone_optee.h")
    shared = [work / name for name in ("LICENSE", "replayer.h", "gramophone_pta.h", "gramophone_optee.h")]
    shared += [GENERATED / "gramophone_trace.h", HERE / "optee" / "ta" / "gramophone_ta.h"]
    for part in OPTEE_PARTS:
        (work / part).mkdir()
        for source in [*_files(HERE / "optee" / part), *shared]:
            shutil.copyfile(source, work / part / source.name)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file()]
