# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone bringup make`: firmware, requests and expected lines of a bring-up."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from numpy.typing import NDArray

from host_tools.accesses.job_times import replay_time
from host_tools.api.keys import signer_of
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError
from host_tools.commands.traces import read_trace
from host_tools.extras.bringup import console, kit, probes
from host_tools.extras.bringup.commands.values import Files, given, taking_values
from host_tools.extras.bringup.judge import FAILED, report_of
from host_tools.extras.bringup.probes import Pages, Place
from host_tools.extras.bringup.stages import TIMED, Stage, requests, stages
from host_tools.families.family import profile_of
from host_tools.flash import pack
from host_tools.model.timing import TimingError, chip_of
from host_tools.runners import firmware as firmwares
from host_tools.runners.unicorn import power_block
from host_tools.support.progress import phase
from host_tools.support.results import Positive, Result
from host_tools.vgpu import confined
from trace_format.errors import GramophoneError
from trace_format.files import read_file
from trace_format.trace import Trace


class Kit(Result):
    """A bring-up kit.

    Attributes:
        stages: That are replays.
        bytes: Of request.bin, which lies at the mailbox's address.
        mailbox: That address.
    """

    output: str
    gpu: str
    stages: Positive
    bytes: Positive
    mailbox: Positive


@click.command(
    "make",
    cls=GramophoneCommand,
    reads_traces=True,
    example="gramophone generate device.toml -o out\n"
    "gramophone bringup make out lenet.gtr --signing-key key.pem --input data=x.npy -o kit",
)
@click.argument("generated", type=FILE)
@click.argument("trace", type=FILE)
@taking_values
@click.option("--signing-key", type=FILE, required=True, help="Private key (PEM: PKCS#8, SEC 1, OpenSSH).")
@click.option(
    "--replays",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    help="Replays of the stage thousand.",
)
@click.option("-o", "--output", type=FILE, required=True, help="Folder to write the kit to; new.")
def kit_make_command(
    generated: Path,
    trace: Path,
    inputs: Files,
    parameters: Files,
    signing_key: Path,
    replays: int,
    output: Path,
) -> Outcome[Kit]:
    """Make a board's bring-up firmware and its twelve stages.

    GENERATED is a folder of `generate` for a bare-metal board, with the key that trusts --signing-key; TRACE is a
    small network for its GPU. The kit has the firmware, request.bin for the mailbox, and what an emulation says.
    """
    if output.exists():
        raise UsageError(f"--output {output}: expected a new folder")
    gpu = kit.gpu_of(generated)
    found, _ = read_trace(trace)
    if found.gpu != gpu:
        raise GramophoneError(f"{trace}: expected a trace for {gpu}, as {generated} is, found one for {found.gpu}")
    values = given(found, str(trace), inputs, parameters)
    with phase("replaying on the virtual GPU"):
        pages = confined.call(lambda: probes.written_pages(found, values), dict[int, list[Place]])
    made = stages(found, pages, replays)
    request = requests(made, values, signer_of(signing_key))
    with tempfile.TemporaryDirectory(dir=output.absolute().parent, prefix=".gramophone-") as name:
        fresh = Path(name) / "kit"
        fresh.mkdir()
        with phase("compiling the firmware"):
            fw = kit.write_firmware(generated, fresh / kit.FIRMWARE, profile_of(gpu), request)
        if len(request) > fw.board.mailbox_bytes:
            raise GramophoneError(
                f"{generated}: the board's mailbox: expected {len(request)} bytes, found {fw.board.mailbox_bytes}"
            )
        _write(fresh, request, [one for one in made if one.name == TIMED])
        if files := kit.card(pack.board_of(generated), read_file(fw.binary), request):
            (fresh / kit.CARD).mkdir()
            for file, content in files.items():
                (fresh / kit.CARD / file).write_bytes(content)
        with phase("emulating the board"):
            devices = kit.devices_of(fw)
            said = confined.call(lambda: kit.emulate(fw, request, gpu, devices=devices), str)
        _check_emulation(said, gpu)
        further = kit.further_lines(_estimates(made, fw), _before(made, values))
        (fresh / kit.EXPECTED).write_text(said + further, encoding="utf-8")
        shutil.move(fresh, output)
    data = Kit(str(output), gpu, len(made), len(request), fw.board.mailbox_base)
    at = f"{fw.board.mailbox_base:#x}"
    parts = f"firmware/firmware.bin, and request.bin ({len(request)} bytes) for the mailbox at {at}"
    if files:
        parts = f"{kit.CARD}/, whose files go to the boot partition of a card"
    text = f"{output}: {parts}; log the serial console, then: gramophone bringup read {output} LOG"
    return Outcome(data, text)


def _check_emulation(text: str, gpu: str) -> None:
    """GramophoneError: a stage failed, so that nothing could be compared with what was said."""
    said = console.read(text)
    for name in console.STAGES:
        stage = said.stages.get(name, FAILED)
        if not stage.ok:
            why = f": {report_of(stage).describe(profile_of(gpu))}" if "status" in stage.values else ""
            raise GramophoneError(
                f"the kit's emulation: stage {name}: expected ok, found failed{why}; does the device trust "
                "--signing-key?"
            )


def _write(folder: Path, request: bytes, timed: Sequence[Stage]) -> None:
    (folder / kit.REQUEST).write_bytes(request)
    for number, stage in enumerate(timed):
        (folder / kit.timed(number)).write_bytes(stage.trace.build())


def _estimates(made: Sequence[Stage], fw: firmwares.Firmware) -> list[float]:
    """Of the timed traces, by the model of the board's chip; none where there is no model, or no silicon."""
    if power_block(fw.board) is None:
        return []
    try:
        return [_estimate(one.trace) for one in made if one.name == TIMED]
    except TimingError:
        return []


def _estimate(trace: Trace) -> float:
    return replay_time(trace, chip_of(trace.gpu, None)).us


def _before(made: Sequence[Stage], values: Mapping[str, NDArray[Any]]) -> dict[str, str]:
    """Hashes of the probe's pages as they were before their jobs."""
    probe = next(one.trace for one in made if one.name == "lenet")
    with phase("replaying on the virtual GPU"):
        pages = confined.call(lambda: probes.expected(probe, values), list[Pages])
    return {piece.slot: hashlib.sha256(piece.before).hexdigest() for piece in pages if piece.before != piece.data}
