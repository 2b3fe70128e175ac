# SPDX-License-Identifier: BSD-2-Clause
"""Generates the replayer for one GPU, platform and key: sources, Makefile and the crypto library's files.

A bare-metal folder is self-contained: `make -C out` needs a cross compiler and nothing of this project. So is that
for a process of Linux (`linux_folder`). That for OP-TEE becomes a part of OP-TEE's core (`optee_folder`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from signing.keys import Algorithm, PublicKey
from tee_replayer import crypto
from tee_replayer import operators as operator_sources
from tee_replayer.generator import amalgamate, bare_metal, boards, linux_folder, optee_folder
from tee_replayer.generator.board_checks import BoardError
from tee_replayer.generator.boards import Board
from tee_replayer.generator.device import Device
from tee_replayer.generator.device_crypto import DeviceCrypto
from tee_replayer.generator.evidence import HOOK, Evidence
from tee_replayer.generator.generated_folder import check_replaceable, write_list
from trace_format import profile as profiles
from trace_format.errors import GramophoneError, listed
from trace_format.licence import COPYRIGHT, SPDX
from trace_format.profile import Profile
from trace_format.schema import VERSION_MAJOR, VERSION_MINOR, Codec, Operator

NO_EVIDENCE = Evidence()
CAN_MAP = 2 << 20  # OP-TEE's core maps large areas in units of so many bytes
HERE = Path(__file__).resolve().parents[1]


class GenerateError(GramophoneError):
    """What was requested cannot be generated."""


def generate(
    gpu: str,
    platform: str | Board,
    key: PublicKey,
    out: Path,
    *,
    libraries: crypto.Libraries,
    min_security_version: int = 0,
    carveout_bytes: int | None = None,
    share_gpu: bool = False,
    policy: Path | None = None,
    programs: Mapping[str, bytes] | None = None,
    evidence: Evidence = NO_EVIDENCE,
    operators: Collection[Operator] = (),
    codecs: Collection[Codec] = (),
    mmu: bool | None = None,
    force: bool = False,
) -> Path:
    """Write a replayer's sources.

    Args:
        gpu: name of the GPU profile.
        platform: one of `platforms()`, or a board of one's own.
        key: whose traces the device accepts.
        out: folder; made, or replaced when it is one that this function wrote.
        libraries: the crypto libraries' source trees, both of them.
        min_security_version: older traces are refused.
        carveout_bytes: secure memory for traces, a multiple of 4096; without it the board's own size.
        share_gpu: the normal world has the GPU between sessions (OP-TEE, on a board with a firewall for it).
        policy: the TA's policy.h (OP-TEE), instead of the one that lets root replay everything.
        programs: further files, by their path in the folder; they can be executed.
        evidence: whether the device keeps a log and signs attestations.
        operators: what the device computes on the CPU; it refuses traces that need others.
        codecs: what of `trace_format.codec.LINKED` it decodes; it refuses traces that need others.
        mmu: MMU and caches on or off (bare metal); None: as the board's description says.
        force: give up what was edited or added in `out`.

    Returns:
        `out`.

    Raises:
        GenerateError: unknown platform, a key of another kind than ES256, an odd size, an
            option that the platform has no use for, or evidence that its port does not provide for.
        FolderError: `out` holds something else, or was edited since it was generated.
        BoardError: there is no room for the carve-out.
        ProfileError: unknown GPU, or one that the platform cannot drive.
    """
    profile = profiles.load(gpu)
    board = None if platform == linux_folder.PLATFORM else _board(profile, platform, carveout_bytes)
    if board and mmu is not None:
        board = board.with_mmu(mmu)
    if key.algorithm is not Algorithm.ES256:
        raise GenerateError(
            f"the key is an {key.algorithm.title} key, and this device build verifies ES256 only: "
            "sign with a P-256 key ('gramophone keygen' makes one)"
        )
    if not 0 <= min_security_version < 1 << 32:
        raise GenerateError(f"security version {min_security_version} is out of range: expected 0 to 2^32 - 1")
    if board is None:
        linux_folder.check(profile)
        _check_unused(
            carveout_bytes=carveout_bytes,
            share_gpu=share_gpu,
            policy=policy,
            evidence=evidence.log,
            operators=operators,
            mmu=mmu is not None,
        )
    else:
        _check_options(board, share_gpu, policy)
    if libraries.aws_lc is None:
        raise GenerateError("a device's replayer needs the sources of AWS-LC")
    runs_optee = board is not None and board.runs_optee
    cryptography = DeviceCrypto(evidence, has_hash=not runs_optee)
    versions = libraries.versions
    linked = ", ".join(f"{name} {versions[name]}" for name in cryptography.libraries)
    if board and evidence.log and board.sources and not any(HOOK in text for text in board.sources.values()):
        raise GenerateError(
            f"{board.file}: a replay log needs a place for a secret and for the log's tail: expected "
            "gr_board_secret (docs/LOG.md) in the board's sources, found none"
        )
    check_replaceable(out, force=force)
    name = board.name if board else linux_folder.PLATFORM
    notice = (
        f"/* {SPDX} */\n"
        f"/* {COPYRIGHT}\n"
        " *\n"
        f" * Gramophone replayer for {profile.title} on {name}; generated, do not edit.\n"
        f" *   trace format      {VERSION_MAJOR}.{VERSION_MINOR}\n"
        f" *   GPU profile       {profile.name} {profile.profile_id:#018x}\n"
        f" *   key               ES256 {key.kid.hex()}\n"
        f" *   security version  at least {min_security_version}\n"
        f" *   crypto            {linked}\n"
        f"{f' *   evidence          {evidence.words}' + chr(10) if evidence.log else ''}"
        f"{f' *   operators         {operator_sources.words(operators)}' + chr(10) if operators else ''}"
        f"{f' *   codecs            {listed(codec.name.lower() for codec in codecs)}' + chr(10) if codecs else ''}"
        f"{board.notice if board else ''}"
        " */"
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as beside:
        work = Path(beside) / "new"
        work.mkdir()
        shutil.copyfile(HERE / "LICENSE", work / "LICENSE")
        device = Device(name, profile.profile_id, min_security_version, key)
        defines = evidence.defines + operator_sources.define(operators)
        defines += "".join(f"#define {amalgamate.macro(codec)}\n" for codec in codecs)
        header = amalgamate.header(notice, device.declaration(), defines, evidence.header)
        source = amalgamate.source(
            profile, notice, device.definition(), evidence.source, defines=defines, in_optee=runs_optee
        )
        (work / "replayer.h").write_text(header, encoding="utf-8")
        (work / "replayer.c").write_text(source, encoding="utf-8")
        if board is None:
            linux_folder.write(profile, work, libraries, cryptography)
        elif board.runs_optee:
            optee_folder.write(profile, board, work, share_gpu, _policy(policy))
            optee_folder.write_crypto(work, libraries, cryptography)
            if evidence.log:
                optee_folder.add_log(work)
            if operators:
                optee_folder.add_operators(work, operators)
        else:
            bare_metal.write(board, work, libraries, cryptography)
            if operators:
                bare_metal.add_operators(work, operators)
        if board and not board.is_own:  # for `gramophone flash`
            shutil.copyfile(board.file, work / f"{board.name}.toml")
        for path, data in (programs or {}).items():
            (work / path).write_bytes(data)
            (work / path).chmod(0o755)
        write_list(work)
        if out.exists():
            os.rename(out, Path(beside) / "old")
        os.rename(work, out)
    return out


def platforms() -> list[str]:
    """Names of all platforms: the project's boards, and a process of Linux."""
    return sorted([*boards.names(), linux_folder.PLATFORM])


def _check_unused(**options: object) -> None:
    """Raise GenerateError for what a process of Linux has no use for."""
    reasons = {
        "carveout_bytes": "the device tree says how large the carve-out is (carveout.dtso)",
        "share_gpu": "'gramophone-gpu give-back' gives the GPU back",
        "policy": "it takes no policy: that is the TA's, of platforms with OP-TEE",
        "operators": "its replayer has no operators on the CPU",
        "mmu": "Linux has the MMU",
        "evidence": "a process has nowhere to keep a secret and a log from the machine's root",
    }
    for name, value in options.items():
        if value:
            raise GenerateError(f"platform {linux_folder.PLATFORM}: {reasons[name]}")


def _check_options(board: Board, share_gpu: bool, policy: Path | None) -> None:
    """Raise GenerateError for what a board has no use for."""
    if board.runs_optee:
        if share_gpu and "firewall" not in board.devices:
            raise GenerateError(f"{board.file}: the GPU cannot be shared without devices.firewall")
    elif share_gpu:
        raise GenerateError(f"on {board.name} the GPU cannot be shared with the normal world: OP-TEE does that")
    elif policy is not None:
        raise GenerateError(f"{board.name} takes no policy: it is the TA's, of platforms with OP-TEE")


def _board(profile: Profile, platform: str | Board, carveout_bytes: int | None) -> Board:
    """The board, with a carve-out of this size, that the GPU can be on and can reach."""
    if isinstance(platform, Board):
        board = platform
    elif platform in boards.names():
        board = boards.load(platform)
    else:
        raise GenerateError(f"no platform {platform!r}; there are: {', '.join(platforms())}")
    if board.gpu and board.gpu.profile != profile.name:
        raise GenerateError(f"the GPU of {board.name} is {board.gpu.profile}, not {profile.name}")
    if carveout_bytes is not None:
        board = board.with_carveout(carveout_bytes)
    carveout = board.memory["carveout"]
    if board.runs_optee and (carveout.base % CAN_MAP or carveout.bytes % CAN_MAP):
        raise GenerateError(f"{board.file}: memory.carveout ({carveout}): OP-TEE takes multiples of 2 MiB")
    reach = 1 << int(profile.mmu["pa_bits"])
    if carveout.end > reach:
        raise BoardError(
            f"memory.carveout ({carveout}): {profile.title} reaches only {reach:#x} bytes", file=board.file
        )
    return board


def _policy(path: Path | None) -> bytes:
    """A policy.h; GenerateError when it lacks what the TA takes from it."""
    if path is None:
        return (HERE / "optee" / "ta" / optee_folder.POLICY).read_bytes()
    text = path.read_bytes()
    missing = [name for name in ("policy_clients", "policy_traces", "POLICY_STORAGE") if name.encode() not in text]
    if missing:
        raise GenerateError(f"{path}: a TA's {optee_folder.POLICY}: expected {listed(missing)}, found none")
    return text
