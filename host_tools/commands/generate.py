# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone generate`, and the options that it shares with what runs replayers."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path

import click

from host_tools.commands.decryption_keys import read_decryption_key
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError, warn
from host_tools.commands.signers import DeviceId
from host_tools.runners.libraries import source as libraries_source
from host_tools.runners.optee.bundle import bundle
from host_tools.support.progress import phase
from signing import encryption
from signing.keys import Algorithm, PublicKey
from signing.trust import Anchor, Policy
from signing.trust_chain import load_anchor
from signing.trust_verdict import NO_ID
from tee_replayer.generator import boards, linux_folder, platforms
from tee_replayer.generator.boards import Board
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.generate import generate as generate_sources
from tee_replayer.generator.options import MAX_REQUESTS, Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.target import drivers
from trace_format import limits
from trace_format.errors import GramophoneError
from trace_format.files import read_file
from trace_format.operators import OPERATORS, Operator
from trace_format.schema import MAX_NETWORKS
from trace_format.schema.trust import KeyKind

MIB = 1 << 20
_BESIDE = "files beside the emulator"


KEY = click.option("--key", type=FILE, required=True, help="Public key (PEM), or trust policy (.gtp), to trust.")
DEVICE_ID = click.option(
    "--device-id",
    type=DeviceId(),
    default=NO_ID,
    show_default="none",
    help="Of the device, 32 digits in hexadecimal: trust policies may name devices.",
)
MIN_VERSION = click.option(
    "--min-security-version", type=click.IntRange(0, 2**32 - 1), default=0, help="Older traces are refused."
)
BEARSSL = click.option("--bearssl", type=FILE, help="BearSSL's source tree; default: Debian's, fetched once.")
AWS_LC = click.option(
    "--aws-lc", type=FILE, help="Source tree of aws-lc-sys, as Debian has it; default: Debian's, fetched once."
)
OPERATOR = click.option(
    "--operator",
    "operators",
    multiple=True,
    type=click.Choice([row.name for row in OPERATORS.values()]),
    help="What the device computes on the CPU; repeatable. Traces that need another are refused.",
)

DECRYPTS = click.option(
    "--decrypts", is_flag=True, help="It reads traces that are encrypted for the device, by a key of its secret."
)
FLEET_KEY = click.option(
    "--fleet-key",
    type=FILE,
    help="Private key (PEM, P-256) of a fleet, compiled in: traces that are encrypted for it are read, too.",
)
NETWORKS = click.option(
    "--networks",
    type=click.IntRange(2, MAX_NETWORKS),
    help="It takes joint traces (`gramophone join`), of so many networks at most.",
)
STEPS = click.option(
    "--steps", is_flag=True, help="A replay can stop between two jobs and go on later (`gr_step`)."
)
SCHEDULE = click.option(
    "--schedule",
    type=click.IntRange(1, MAX_REQUESTS),
    help="So many requests with deadlines can wait for the GPU (`gr_submit`); with --networks, and --steps in it.",
)
ALGORITHMS = {"hybrid": KeyKind.ES256_ML_DSA_44, "es384": KeyKind.ES384, "eddsa": KeyKind.ED25519}
ALGORITHM = click.option(
    "--algorithm",
    "algorithms",
    multiple=True,
    type=click.Choice(list(ALGORITHMS)),
    help="What keys of later trust policies may sign with, besides what those of this one do; repeatable.",
)


def operators_of(names: Collection[str]) -> list[Operator]:
    """The operators of these names, in the table's order."""
    return [operator for operator, row in OPERATORS.items() if row.name in names]


def device_key(path: Path) -> Anchor:
    """The key or the trust policy in a file; errors name the file. Devices verify ES256 only (docs/adr)."""
    key = load_anchor(read_file(path, limits.SMALL_BYTES), file=str(path))
    if isinstance(key, PublicKey) and key.algorithm is not Algorithm.ES256:
        raise GramophoneError(
            f"{path}: a device's key: expected ES256 ('gramophone keygen' makes one), found {key.algorithm.title}"
        )
    return key


def decryption_of(wanted: bool, fleet_key: Path | None) -> Decryption:
    """Which encrypted traces a device reads; a fleet's key says that it reads some."""
    if fleet_key is None:
        return Decryption(wanted)
    return Decryption(True, encryption.key_bytes(read_decryption_key(fleet_key)))


def board_of(platform: str | None, file: Path | None) -> Board | str:
    """The board that the options name, or the name of a platform that is none."""
    if (platform is None) == (file is None):
        raise UsageError("expected either --platform NAME or --board FILE")
    if file:
        return boards.read(file)
    return linux_folder.PLATFORM if platform == linux_folder.PLATFORM else boards.load(platform or "")


@click.command(
    "generate",
    cls=GramophoneCommand,
    example="gramophone generate --gpu v3d42 --platform qemu-virt --key pub.pem -o out\nmake -C out size",
    groups={
        "Target": ("--gpu", "--platform", "--board", "--carveout-mib", "--mmu", "-o", "--force"),
        "Trust": ("--key", "--algorithm", "--min-security-version", "--device-id", "--rollback-store", "--clock"),
        "Encrypted traces": ("--decrypts", "--fleet-key"),
        "Evidence": ("--replay-log", "--log-hashes", "--attest"),
        "What traces may need": ("--operator", "--networks", "--steps", "--schedule"),
        "OP-TEE": ("--share-gpu", "--any-client", "--policy"),
        "Sources": ("--bearssl", "--aws-lc"),
    },
)
@click.option("--gpu", required=True, type=click.Choice(drivers()), help="GPU to drive.")
@click.option("--platform", type=click.Choice(platforms.names()), help="Board or environment.")
@click.option("--board", "board_file", type=FILE, help="Description of a board of your own, instead (TOML).")
@KEY
@click.option("-o", "--output", type=FILE, required=True, help="Folder to write; one written before is replaced.")
@MIN_VERSION
@DEVICE_ID
@click.option(
    "--rollback-store",
    is_flag=True,
    help="The device keeps the highest versions in flash and refuses older ones after a reboot (bare metal).",
)
@click.option(
    "--clock",
    is_flag=True,
    help="The device asks the board's clock whether the trust policy holds (bare metal).",
)
@click.option(
    "--carveout-mib", type=click.IntRange(1, 1 << 20), help="Secure memory for traces; default: the board's."
)
@BEARSSL
@AWS_LC
@click.option(
    "--share-gpu", is_flag=True, help="The normal world has the GPU between sessions (platform optee only)."
)
@click.option(
    "--any-client",
    is_flag=True,
    help="Any client may open sessions, not only the TA, whose policy that leaves out (platform optee only).",
)
@click.option("--policy", type=FILE, help="The TA's policy.h, of your own (platform optee only).")
@click.option(
    "--replay-log", is_flag=True, help="The device keeps a log of boots, loads and replays (docs/LOG.md)."
)
@click.option("--log-hashes", is_flag=True, help="The log has hashes of inputs and outputs; with --replay-log.")
@click.option("--attest", is_flag=True, help="The device signs what produced an output; with --replay-log.")
@DECRYPTS
@FLEET_KEY
@ALGORITHM
@OPERATOR
@NETWORKS
@STEPS
@SCHEDULE
@click.option(
    "--mmu/--no-mmu",
    default=None,
    help="MMU and caches on, or off (bare metal); default: the board's description.",
)
@click.option("--force", is_flag=True, help="Replace the folder although files in it were edited or added.")
def generate_command(
    gpu: str,
    platform: str | None,
    board_file: Path | None,
    key: Path,
    output: Path,
    min_security_version: int,
    device_id: bytes,
    rollback_store: bool,
    clock: bool,
    carveout_mib: int | None,
    bearssl: Path | None,
    aws_lc: Path | None,
    share_gpu: bool,
    any_client: bool,
    policy: Path | None,
    replay_log: bool,
    log_hashes: bool,
    attest: bool,
    decrypts: bool,
    fleet_key: Path | None,
    algorithms: tuple[str, ...],
    operators: tuple[str, ...],
    networks: int | None,
    steps: bool,
    schedule: int | None,
    mmu: bool | None,
    force: bool,
) -> Outcome:
    """Write a replayer for one target: replayer.c and replayer.h, the port, and a Makefile.

    For the platform "optee" it is a pseudo-TA, a part of OP-TEE's core; sub.mk says how to add it. For "linux" it
    is a command and a library of user space, which reach the GPU through UIO (docs/LINUX.md). A folder whose files
    were edited since is not replaced: keep what is yours outside of it (--board, --policy).
    """
    board = board_of(platform, board_file)
    if (log_hashes or attest) and not replay_log:
        raise UsageError("--log-hashes and --attest need --replay-log: both are about what is in the log")
    if schedule and not networks:
        raise UsageError("--schedule needs --networks: requests are for networks of a joint trace")
    trusted = device_key(key)
    for option, is_given in (("--device-id", device_id != NO_ID), ("--algorithm", bool(algorithms))):
        if is_given and not isinstance(trusted, Policy):
            raise UsageError(
                f"{option} is for trust policies (--key FILE.gtp): a device with one key has no use for it"
            )
    optee = isinstance(board, Board) and board.runs_optee
    name = board if isinstance(board, str) else board.name
    with phase("fetching the crypto libraries' sources"):
        crypto = libraries_source(bearssl, aws_lc)
    folder = generate_sources(
        Options(
            gpu,
            platform_of(board),
            trusted,
            crypto,
            min_security_version=min_security_version,
            device_id=device_id,
            rollback_store=rollback_store,
            clock=clock,
            carveout_bytes=carveout_mib and carveout_mib * MIB,
            share_gpu=share_gpu,
            any_client=any_client,
            policy=policy,
            programs={"client/gramophone-tee": bundle()} if optee else {},
            evidence=Evidence(replay_log, log_hashes, attest),
            decryption=decryption_of(decrypts, fleet_key),
            algorithms=[ALGORITHMS[name] for name in algorithms],
            operators=operators_of(operators),
            networks=networks or 0,
            steps=steps,
            schedule=schedule or 0,
            mmu=mmu,
        ),
        output,
        force=force,
    )
    files = sorted(
        str(p.relative_to(folder))
        for p in folder.rglob("*")
        if p.is_file() and not {"bearssl", "aws-lc"} & set(p.relative_to(folder).parts)
    )
    data = {"folder": str(folder), "gpu": gpu, "platform": name, "key_id": trusted.kid.hex(), "files": files}
    if replay_log and isinstance(board, Board) and not board.is_silicon:
        where = "OP-TEE's own hardware unique key is all zeros, its storage a folder" if optee else _BESIDE
        warn(f"{name} protects neither the device's secret nor its log's tail: {where}")
    if rollback_store and isinstance(board, Board) and not board.is_silicon:
        warn(f"{name} protects no versions: the normal world reaches their flash, a file beside the emulator")
    if clock and isinstance(board, Board) and not board.is_silicon:
        warn(f"{name} has no clock of the secure world: the normal world can set it")
    if mmu is False and isinstance(board, Board) and (why := board.with_mmu(False).bit_from_mailbox):
        warn(f"without an MMU one flipped bit leads out of secure memory: {why}")
    if fleet_key:
        warn(f"{folder}/replayer.c has the private key of {fleet_key}: whoever can read the firmware has it, too")
    if any_client:
        warn(f"{folder}/sub.mk lets any client open sessions: leave --any-client out to ship it")
    if optee and policy is None:
        warn(
            f"{folder}/ta/policy.h lets root replay all that the key has signed: --policy FILE takes "
            "one of your own"
        )
    if name == linux_folder.PLATFORM:
        warn("the kernel and its root see all that is replayed and can change it: docs/LINUX.md")
    command = f"make -C {shlex.quote(str(folder))}"
    following = f"see {folder}/README.md" if optee or isinstance(board, str) else command
    return Outcome(data, f"{folder}: {', '.join(files)}\nnext: {following}")
