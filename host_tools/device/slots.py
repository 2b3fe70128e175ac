# SPDX-License-Identifier: BSD-2-Clause
"""Traces and their slots, for the commands that replay: what is loaded, what it takes, what files give."""

from __future__ import annotations

import argparse
import mmap
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from host_tools.device.library import BAD_STATE, BUSY, Session, TeeError
from host_tools.support import npy
from host_tools.support.files import check_writable, write_atomically
from trace_format.errors import GramophoneError, SlotError, listed, printable
from trace_format.files import open_regular

INPUT, OUTPUT, PARAMETER = 1, 2, 3  # SlotKind of the trace format
SENDING_S, LOOK_S = 30.0, 0.05  # for another session to send its trace
KINDS = {INPUT: "input", OUTPUT: "output", PARAMETER: "parameter"}


class UsageError(GramophoneError):
    """Arguments that do not fit together."""


@dataclass(frozen=True)
class Slot:
    """What a trace takes or gives: `struct gramophone_slot`."""

    index: int
    name: str
    kind: str
    dtype: int
    shape: tuple[int, ...]
    bytes: int
    bound: bool

    def __str__(self) -> str:
        recorded = ", has a recorded value" if self.bound else ""
        return f"{self.kind} {printable(self.name)}: {npy.ELEMENTS[self.dtype][0]} {list(self.shape)}{recorded}"


@dataclass(frozen=True)
class Exchange:
    """What a replay takes from files and writes to files."""

    values: dict[Slot, bytes]
    targets: dict[Slot, Path]

    def give(self, session: Session) -> None:
        """Set all inputs and parameters."""
        for slot, value in self.values.items():
            session.set_input(slot.index, value)

    def take(self, session: Session) -> dict[Slot, bytes]:
        """All outputs that are wanted."""
        return {slot: session.output(slot.index, slot.bytes) for slot in self.targets}

    def write(self, results: dict[Slot, bytes]) -> dict[str, str]:
        """Write the outputs; slot and file of each."""
        for slot, data in results.items():
            write_atomically(self.targets[slot], npy.npy(slot.dtype, slot.shape, data))
        return {slot.name: str(path) for slot, path in self.targets.items()}


def check_files(options: argparse.Namespace) -> None:
    """Whether the files that the options name can be written, and none is written that is read."""
    inputs = unique("input", options.input)
    unique("parameter", options.param)
    for path in unique("output", options.output).values():
        check_writable(path)
        for read in (options.signed, *inputs.values()):
            if path.exists() and read.exists() and path.samefile(read):
                raise GramophoneError(f"{path}: this file is an input too ({read}): name another file to write")


def exchange_of(options: argparse.Namespace, slots: list[Slot]) -> Exchange:
    """Read the files that the options name, for these slots."""
    inputs, parameters = unique("input", options.input), unique("parameter", options.param)
    values = values_of("input", "--input", inputs, named(slots, INPUT))
    values |= values_of("parameter", "--param", parameters, named(slots, PARAMETER))
    giving, outputs = named(slots, OUTPUT), unique("output", options.output)
    return Exchange(values, {known("output", name, giving): path for name, path in outputs.items()})


def choose(session: Session, name: str | None) -> list[Slot]:
    """Choose a network of the loaded trace by its name; its slots. A trace of one network has none to choose."""
    slots, networks = slots_of(session), session.networks()
    names = [session.text(network.name) for network in networks]
    if name is None and len(networks) < 2:
        return slots
    if name not in names:
        raise GramophoneError(
            f"no network {name!r}; there are: {listed(names)}"
            if name
            else f"the trace has several networks: say which, with --network: {listed(names)}"
        )
    network = networks[names.index(name)]
    session.choose(names.index(name))
    return slots[network.first_slot : network.first_slot + network.slot_count]


def load(session: Session, path: Path, *, or_share: bool = False) -> mmap.mmap:
    """Send a signed trace, and have it loaded; its bytes.

    Args:
        session: that does.
        path: the file.
        or_share: that another session has loaded the same trace, and uses it, will do.

    Raises:
        GramophoneError: the file is empty, or another trace is loaded, and in use.
        TeeError: the device refuses it; with the replayer's report.
    """
    with ExitStack() as stack:
        file = stack.enter_context(open_regular(path))
        if not path.stat().st_size:
            raise GramophoneError(f"{path}: expected a signed trace, found an empty file")
        # The session keeps it. As a copy, because the kernel shares only memory that the process may write.
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        until = time.monotonic() + SENDING_S
        while True:
            try:
                session.load(data)
                return data
            except TeeError as error:
                if error.result != BUSY or not or_share:
                    raise with_log(session, error) from None
            if _is_loaded(session, path, data):
                return data
            if time.monotonic() >= until:
                raise GramophoneError(f"{path}: another session has been sending a trace for {SENDING_S:.0f} s")
            time.sleep(LOOK_S)


def _is_loaded(session: Session, path: Path, data: mmap.mmap) -> bool:
    """Whether the trace that another session has loaded is this file; False: it is still sending it."""
    try:
        manifest = session.manifest()
    except TeeError as error:
        if error.result == BAD_STATE:
            return False
        raise
    if data.find(bytes.fromhex(session.text(manifest.trace_id))) < 0:
        raise GramophoneError(
            f"{path}: another trace is loaded, and in use: {printable(session.text(manifest.name))}"
        )
    return True


def slots_of(session: Session) -> list[Slot]:
    """All slots of the loaded trace."""
    found = []
    for index, slot in enumerate(session.slots()):
        if slot.kind not in KINDS or slot.dtype not in npy.ELEMENTS or slot.rank > len(slot.dims):
            raise SlotError(f"slot {index} is of a kind or element type that this program does not know")
        shape = tuple(int(size) for size in slot.dims[0 : slot.rank])
        kind, name = KINDS[slot.kind], session.text(slot.name)
        found.append(Slot(index, name, kind, int(slot.dtype), shape, int(slot.bytes), bool(slot.bound)))
    return found


def named(slots: list[Slot], kind: int) -> dict[str, Slot]:
    """Those of a kind, by their names."""
    return {slot.name: slot for slot in slots if slot.kind == KINDS[kind]}


def unique(what: str, given: list[tuple[str, Path]]) -> dict[str, Path]:
    """Files by slot; UsageError when one is given twice."""
    files = dict(given)
    if len(files) != len(given):
        twice = next(name for name in files if [slot for slot, _ in given].count(name) > 1)
        raise UsageError(f"{what} {twice!r} is given twice")
    return files


def known(kind: str, name: str, slots: dict[str, Slot]) -> Slot:
    """The slot of a name; SlotError when there is none."""
    if name not in slots:
        raise SlotError(f"no {kind} {name!r}; there are: {listed(slots)}")
    return slots[name]


def values_of(kind: str, option: str, files: dict[str, Path], taking: dict[str, Slot]) -> dict[Slot, bytes]:
    """Data for the slots of a kind that are given; each slot without a recorded value must be."""
    missing = [name for name, slot in taking.items() if not slot.bound and name not in files]
    files_of = {known(kind, name, taking): path for name, path in files.items()}
    if missing:
        raise SlotError(f"no value for {listed(missing)}: give {option} SLOT=FILE.npy for each")
    return {slot: npy.load(path, slot.name, slot.dtype, slot.shape) for slot, path in files_of.items()}


def with_log(session: Session, error: TeeError) -> TeeError:
    """The error of a load or a replay, with the replayer's report where there is one."""
    try:
        log = session.log()
    except TeeError:
        return error
    return TeeError(str(error), error.result, error.origin, log)


def explained(error: TeeError, replay: int) -> TeeError:
    """The error of a replay, with the action that failed in its text."""
    log = error.log
    if log is None:
        return error
    where = f"replay {replay + 1}, action {log['action']}, opcode {log['op']:#04x}, operand {log['offset']:#x}"
    text = f"{error}; {where}: expected {log['expected']:#x}, found {log['seen']:#x}"
    return TeeError(text, error.result, error.origin, log)
