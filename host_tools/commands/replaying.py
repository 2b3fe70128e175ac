# SPDX-License-Identifier: BSD-2-Clause
"""Commands that generate replayers and run them: generate, replay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError, say
from host_tools.runners import NORMAL_WORLDS, OPTEE, WITHOUT_OPTEE, bearssl, run, runner_of
from host_tools.runners.needs import open_trace, secure_bytes
from host_tools.runners.optee.bundle import bundle
from host_tools.runners.replay import NONE, ReplayRequest, ReplayResult
from host_tools.support.files import check_writable, write_atomically
from host_tools.support.tensors import Assignment, assigned, load_all, npy, slot_of, without_value
from signing.keys import Algorithm, PublicKey, load_public_key
from signing.verify import Verdict, verify_trace
from tee_replayer import boards
from tee_replayer.generate import generate as generate_sources
from tee_replayer.target import drivers
from trace_format.errors import GramophoneError, SlotError, listed, printable
from trace_format.schema import SlotKind

MIB = 1 << 20
KEY = click.option("--key", type=FILE, required=True, help="Public key (PEM) of the signer to trust.")
MIN_VERSION = click.option(
    "--min-security-version", type=click.IntRange(0, 2**32 - 1), default=0, help="Older traces are refused."
)


def device_key(path: Path) -> PublicKey:
    """The key in a file; errors name the file. Devices verify ES256 only (docs/adr)."""
    key = load_public_key(path.read_bytes(), file=str(path))
    if key.algorithm is not Algorithm.ES256:
        raise GramophoneError(
            f"{path}: a device's key: expected ES256 ('gramophone keygen' makes one), found {key.algorithm.title}"
        )
    return key


@click.command(
    "generate",
    cls=GramophoneCommand,
    example="gramophone generate --gpu v3d42 --platform qemu-virt --key pub.pem -o out\nmake -C out size",
)
@click.option("--gpu", required=True, type=click.Choice(drivers()), help="GPU to drive.")
@click.option("--platform", required=True, type=click.Choice(boards.names()), help="Board or environment.")
@KEY
@click.option("-o", "--output", type=FILE, required=True, help="Folder to write; one written before is replaced.")
@MIN_VERSION
@click.option(
    "--carveout-mib", type=click.IntRange(1, 1 << 20), help="Secure memory for traces; default: the board's."
)
@click.option(
    "--share-gpu", is_flag=True, help="The normal world has the GPU between sessions (platform optee only)."
)
def generate_command(
    gpu: str,
    platform: str,
    key: Path,
    output: Path,
    min_security_version: int,
    carveout_mib: int | None,
    share_gpu: bool,
) -> Outcome:
    """Write a replayer for one target: replayer.c and replayer.h, the port, and a Makefile.

    For the platform "optee" it is a pseudo-TA, a part of OP-TEE's core; sub.mk says how to add it.
    """
    trusted = device_key(key)
    crypto = None
    optee = boards.load(platform).optee
    if not optee:
        with Console(stderr=True).status("fetching BearSSL's source"):
            crypto = bearssl.source()
    folder = generate_sources(
        gpu,
        platform,
        trusted,
        output,
        bearssl=crypto,
        min_security_version=min_security_version,
        carveout_bytes=carveout_mib and carveout_mib * MIB,
        share_gpu=share_gpu,
    )
    if optee:
        write_atomically(folder / "client" / "gramophone-tee", bundle(), mode=0o777)
    files = sorted(
        str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and "bearssl" not in p.parts
    )
    data = {"folder": str(folder), "gpu": gpu, "platform": platform, "key_id": trusted.kid.hex(), "files": files}
    if optee:
        say(
            f"warning: {folder}/sub.mk lets any client open sessions (GRAMOPHONE_TA_ONLY), "
            f"{folder}/ta/policy.h lets root replay all that the key has signed: set both before you ship"
        )
    following = f"see {folder}/README.md" if optee else f"make -C {folder}"
    return Outcome(data, f"{folder}: {', '.join(files)}\nnext: {following}")


@click.command(
    "replay",
    cls=GramophoneCommand,
    example="gramophone replay net.sgtr --key pub.pem --input data=digit.npy --output prob=prob.npy --on qemu",
)
@click.argument("signed", type=FILE)
@KEY
@click.option(
    "--input",
    "inputs",
    type=Assignment(folders=True),
    multiple=True,
    help="Value of an input or parameter slot, or a folder with SLOT.npy files.",
)
@click.option("--output", "outputs", type=Assignment(), multiple=True, help="Where to write an output slot.")
@click.option(
    "--on",
    "runner",
    type=click.Choice((*WITHOUT_OPTEE, OPTEE)),
    default="vgpu",
    show_default=True,
    help="What to run on.",
)
@click.option(
    "--normal-world",
    type=click.Choice(tuple(NORMAL_WORLDS)),
    help="Client of OP-TEE: a small program (the default), or Debian's Linux with gramophone-tee.",
)
@click.option("--gpu", help="Virtual GPU, with its variant; default: the one that the trace is for.")
@click.option(
    "--firmware", type=FILE, help="Folder of `generate`, after make where it has one; default: for this key."
)
@click.option("--repeat", type=click.IntRange(1, 1_000_000), default=1, help="Replays in a row.")
@MIN_VERSION
def replay_command(
    signed: Path,
    key: Path,
    inputs: tuple[tuple[str | None, Path], ...],
    outputs: tuple[tuple[str | None, Path], ...],
    runner: str,
    normal_world: str | None,
    gpu: str | None,
    firmware: Path | None,
    repeat: int,
    min_security_version: int,
) -> Outcome:
    """Verify, load and replay a signed trace, in the secure world of an emulated device or on the virtual GPU."""
    values, targets = assigned("input", inputs), assigned("output", outputs)
    if normal_world and runner != OPTEE:
        raise UsageError(f"--normal-world cannot be used with --on {runner}: only optee has one")
    if firmware is not None and "firmware" not in runner_of(runner).OPTIONS:
        raise UsageError(f"--firmware cannot be used with --on {runner}: no firmware runs there")
    data = signed.read_bytes()
    trusted = device_key(key)
    found = verify_trace(data, [trusted], file=str(signed))
    if found.verdict == Verdict.MALFORMED:  # not a signed trace at all; refusing one is the device's part
        raise GramophoneError(found.reason)
    trace = open_trace(data)
    tensors = {}
    if trace is not None:
        tensors = load_all(trace, values, SlotKind.INPUT, SlotKind.PARAMETER)
        for name, path in targets.items():
            slot_of(trace, name, SlotKind.OUTPUT)
            check_writable(path)
        missing = [name for name in without_value(trace) if name not in tensors]
        if missing and found.ok:  # what is not verified, the device refuses
            raise SlotError(
                f"{signed}: no value for {listed(missing)}: give --input SLOT=FILE.npy for each, or --input "
                "FOLDER with SLOT.npy files; 'gramophone build --param' makes parameters a part of the trace"
            )
    with Console(stderr=True).status(f"replaying on {runner}"):
        request = ReplayRequest(data, trusted, tensors, gpu, repeat, min_security_version, firmware)
        result = run(NORMAL_WORLDS[normal_world or "bare-metal"] if runner == OPTEE else runner, request)
    if trace is not None and result.report.name == "MEMORY":
        enough = -(-secure_bytes(trace) // MIB)
        hint = f"{result.error}; 'gramophone generate --carveout-mib {enough}' gives it enough"
        result = replace(result, error=hint)
    written = {}
    for name, path in targets.items() if result.ok else ():
        write_atomically(path, npy(result.outputs[name]))
        written[name] = str(path)
    return Outcome(_json(result, written), _text(result, written), ok=result.ok)


def _json(result: ReplayResult, written: dict[str, str]) -> dict[str, object]:
    counts = result.instructions
    found: dict[str, object] = {
        "device": result.device,
        "compute": result.compute,
        "jobs": result.jobs,
        "actions": result.actions,
        "retries": result.retries,
        "outputs": {
            name: {"file": written.get(name), "shape": list(array.shape), "dtype": array.dtype.name}
            for name, array in result.outputs.items()
        },
        "instructions": counts and {"verify": counts.verify, "load": counts.load, "replay": counts.replay},
        "trace_bytes": result.trace_bytes,
        "secure_bytes": result.secure_bytes,
    }
    if not result.ok:
        found["error"] = result.error
    return found


def _text(result: ReplayResult, written: dict[str, str]) -> str:
    if not result.ok:
        return f"refused on {result.device}: {result.error}"
    lines = [
        f"{result.device}: {result.jobs} jobs, {result.actions} actions, {result.retries} retries, "
        f"trace {result.trace_bytes} bytes, secure memory {result.secure_bytes} bytes"
    ]
    if result.instructions:
        n = result.instructions
        lines.append(f"instructions: verify {n.verify:,}, load {n.load:,}, replay {n.replay:,}")
    if result.compute == NONE:
        lines.append("warning: this virtual GPU runs no shaders; outputs hold what was in memory, not results")
    for name, array in result.outputs.items():
        where = f" -> {written[name]}" if name in written else ""
        lines.append(f"{printable(name)}: {array.dtype.name} {list(array.shape)}{where}")
    return "\n".join(lines)
