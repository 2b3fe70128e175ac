# SPDX-License-Identifier: BSD-2-Clause
"""Runs the C program of the campaign (campaign.c): compiles it, describes the machine, gives it faults."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import unicorn

from host_tools.runners import mailbox
from host_tools.runners.buffers import Buffers, bind
from host_tools.runners.replay import RunnerError
from tee_replayer.generator.status import value_of
from tests.campaign import boards, encryption, evidence, networks
from tests.campaign.cases import DRIVER, MARK, READS, STRANGER, Attempt
from tests.campaign.device import MAILBOX_BYTES, Device, Place
from tests.campaign.faults import Do, Run
from tests.support import replayer_samples as s
from tests.support.replayer_samples import PAGE
from tests.support.trace_samples import offset_of
from trace_format import packing, profile
from trace_format.schema.firmware import DEVICE_MAGIC

HERE = Path(__file__).parent
UNICORN = Path(unicorn.__file__).parent
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
# As struct outcome of campaign.c.
OUTCOME = np.dtype(
    [(name, "<u4") for name in ("end", "status", "answered", "writes", "from_trace", "offset", "value", "leaked")]
    + [(name, "<u8") for name in ("replays", "pc", "strayed", "evidence", "executed")]
    + [(name, "<u4") for name in ("claimed", "spoilt")]  # by `judged`
)
REPLAYS = 1
INSTRUCTION_BYTES = 4
WORD = 8  # what is hashed is whole words
LIMIT = 1 << 28  # instructions of a run without a fault: OP-TEE's path needs 90 million a verification
PIECE = 4096  # faults that stay, of one process: what an interrupted campaign loses
HANGS_AFTER = 1_000_000  # instructions more than a run that is accepted: every wait of the firmware is shorter


MAY_SET_ALL = bytes.fromhex("ffffffff 00000000 00000000")  # struct gr_limits of internal.h


class End(IntEnum):
    """enum end of campaign.c."""

    NONE = 0
    EXIT = 1
    CRASH = 2
    HANG = 3
    SAME = 4
    FOREIGN = 5


def compile_program(folder: Path) -> Path:
    """Compile campaign.c against the Unicorn of this Python; RunnerError when that fails."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "campaign"
    library = UNICORN / "lib" / "libunicorn.so.2"
    sources = [str(path) for path in sorted(HERE.glob("*.c"))]
    command = [os.environ.get("CC", "cc"), *FLAGS, "-isystem", str(UNICORN / "include"), "-o", str(program)]
    command += [*sources, str(library), f"-Wl,-rpath,{library.parent}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunnerError(f"the campaign's program does not compile:\n{done.stderr.strip()}")
    return program


@dataclass(frozen=True)
class Bench:
    """A trace before a device, and the program that attacks.

    Args:
        program: from `compile_program`.
        device: the firmware.
        attempt: the trace.
        folder: for files.
        control: a trace that the device accepts, so that a run with a fault has time to do so.
    """

    program: Path
    device: Device
    attempt: Attempt
    folder: Path
    control: Attempt

    @functools.cached_property
    def _longest(self) -> int:
        """Instructions of a run that is accepted: one that is refused is shorter by whole verifications."""
        accepted = replace(self, attempt=self.control, folder=self.folder.with_name(f"{self.folder.name}-longest"))
        return int(accepted.outcome()["executed"][0])

    def _describe(self) -> Path:
        """Write the description of the machine; see machine.c."""
        self.folder.mkdir(parents=True, exist_ok=True)
        fw, gpu = self.device.firmware, profile.load(self.device.gpu)
        memory = bytearray(MAILBOX_BYTES)
        buffers = bind(self.attempt.trace, {}) if self.attempt.trace else Buffers()
        has = self.device.features
        extras = evidence.extras(has.evidence)
        heads = mailbox.heads_of(self.attempt.trace, fw.has_queue)
        if self.attempt.turns:
            buffers, extras, heads = Buffers(), tuple(networks.requests(self.attempt.turns.order)), ()
        places = mailbox.request(memoryview(memory), self.attempt.signed, buffers, REPLAYS, extras, heads)
        if self.attempt.turns:
            networks.ask(memory, self.attempt.turns, places.extras_at)
        (self.folder / "mailbox").write_bytes(memory)
        board = fw.board
        rows: list[tuple[str, int, int, object]] = [
            ("ram", *fw.ram, ""),
            ("ram", board.carveout_base, board.carveout_bytes, ""),
            ("mailbox", board.mailbox_base, len(memory), self.folder / "mailbox"),
            ("gpu", board.gpu_base, 0, ""),
            ("gic", board.gic_base, 0, ""),
            ("uart", board.uart_base, 0, ""),
            ("entry", fw.entry, 0, ""),
        ]
        for index, (base, data) in enumerate(fw.segments):
            (self.folder / f"rom{index}").write_bytes(data)
            kind = "rom" if base <= fw.entry < base + len(data) else "data"
            rows.append((kind, base, len(data), self.folder / f"rom{index}"))
        rows += boards.describe(self.device.path, has)
        rows += self._hostile()
        if extras and not self.attempt.turns:
            answers = [(at, len(extra.data)) for at, extra in zip(places.extras_at, extras, strict=True)]
            rows += evidence.describe(answers, self.folder)
        if has.networks or self.attempt.turns:
            rows += networks.describe(self.attempt, self.device.gpu, board.carveout_base // PAGE)
        if has.encryption and not has.evidence.log:  # which has a secret already
            rows += encryption.describe(self.attempt.signed, self.folder)
        for row, at in zip(buffers.rows, places.buffers_at, strict=True):
            rows.append(("answer", at, -(-row.nbytes // WORD) * WORD, ""))
        rooms = places.extras_at if self.attempt.turns else places.answers_at
        rows += [("answer", at, WORD, "") for at in rooms]
        rows += [("identity", gpu.register(name).offset, 0, "") for name in s.IDENT[self.device.gpu]]
        reads = {**READS[self.device.gpu], **self.attempt.reads}
        rows += [("reads", gpu.register(name).offset, value, "") for name, value in reads.items()]
        rows += [("driver", gpu.register(name).offset, 0, "") for name in sorted(DRIVER[self.device.gpu])]
        if self.attempt.writes or self.attempt.trace:
            rows.append(("driver", gpu.register(MARK[self.device.gpu]).offset, 0, ""))
        rows += [("trace", gpu.register(name).offset, value, "") for name, value in self.attempt.writes]
        path = self.folder / "machine"
        path.write_text("".join(f"{kind} {a:#x} {b:#x} {file}\n" for kind, a, b, file in rows))
        return path

    def _hostile(self) -> list[tuple[str, int, int, object]]:
        """What the normal world has, and what an attacker puts there (hostile.c)."""
        base, code = self.device.code
        at = code.index(DEVICE_MAGIC)
        mirror = bytearray(code.replace(s.KEY.raw, STRANGER.public.raw))
        lowest = at + offset_of("device", "min_security_version")
        mirror[lowest : lowest + 4] = bytes(4)
        for start, size in self.device.objects("limits"):
            mirror[start - base : start - base + size] = MAY_SET_ALL * (size // len(MAY_SET_ALL))
        (self.folder / "mirror").write_bytes(mirror)
        return [
            *(("hostile", *found, "") for found in boards.hostile(self.device.path)),
            ("mirror", base, len(mirror), self.folder / "mirror"),
            ("device", base + at, packing.size_of("device"), ""),
        ]

    def said(self) -> dict[int, bytes]:
        """What runs have answered in the mailbox beside the response, and what the board keeps: by its hash."""
        found = {}
        size = (self.folder / "said").stat().st_size  # of one: the run's without a fault
        for path in self.folder.glob("said*"):
            data = path.read_bytes()
            for at in range(0, len(data), size):
                found[int.from_bytes(data[at : at + WORD], "little")] = data[at + WORD : at + size]
        return found

    def _call(self, *arguments: object) -> bytes:
        done = subprocess.run([str(self.program), *map(str, arguments)], capture_output=True, check=False)
        if done.returncode:
            raise RunnerError(done.stderr.decode().strip() or f"{self.program} ended with {done.returncode}")
        return done.stdout

    def outcome(self) -> npt.NDArray[Any]:
        """How the run without a fault ends (one OUTCOME)."""
        return self._run("-")

    def run(self) -> tuple[Run, npt.NDArray[Any]]:
        """The run without a fault, and its outcome."""
        pcs, reads = self.folder / "pcs", self.folder / "reads"
        outcome = self._run(pcs, reads)
        index = np.fromfile(pcs, "<u4") // INSTRUCTION_BYTES
        pcs.unlink()
        table = np.zeros(int(index.max()) + 1, np.uint32)
        table[index] = 1
        words = np.flatnonzero(table)
        table[words] = np.arange(len(words))
        index = table[index]
        addresses = (words * INSTRUCTION_BYTES).astype(np.uint32)
        places = self.device.places(addresses.tolist())
        code, constants = self.device.words(addresses.tolist()), np.fromfile(reads, np.uint32)
        return Run(addresses, code, places, index, whose(places, index), constants), outcome

    def _run(self, *files: Path | str) -> npt.NDArray[Any]:
        said = self.folder / "said"
        said.unlink(missing_ok=True)
        found = np.frombuffer(self._call(self._describe(), "run", LIMIT, said, *files), OUTCOME).copy()
        self._count(found)
        return found

    def _count(self, outcomes: npt.NDArray[Any]) -> None:
        """Of requests, all of them count as one replay, and fewer as none."""
        if self.attempt.turns and self.attempt.turns.order:
            outcomes["replays"] = outcomes["replays"] == len(self.attempt.turns.order)

    def inject(self, run: Run, unspoilt: npt.NDArray[Any], plan: npt.NDArray[Any], jobs: int) -> npt.NDArray[Any]:
        """Inject faults, one a run: their outcomes, in the same order.

        Args:
            run: the run without a fault.
            unspoilt: its outcome.
            plan: FAULTs, in any order; of those that stay, the number is of the instruction's first execution.
            jobs: processes at a time.
        """
        order = np.argsort(plan["number"], kind="stable")
        outcomes = np.zeros(len(plan), OUTCOME)
        machine, limit = self._describe(), max(len(run), self._longest) + HANGS_AFTER
        is_once = plan["kind"][order] < Do.STAY
        once, stays = order[is_once], order[~is_once]

        def part(index: int) -> None:
            mine = once[index::jobs]
            if len(mine):
                said, rows, out = (self.folder / f"{name}{index}" for name in ("said", "plan", "out"))
                said.unlink(missing_ok=True)
                plan[mine].tofile(rows)
                self._call(machine, "inject", limit, said, rows, out, *run.meetings)
                outcomes[mine] = np.fromfile(out, OUTCOME)

        def piece(start: int) -> None:
            mine = stays[start : start + PIECE]
            outcomes[mine] = self._stay(machine, limit, plan[mine])

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(part, range(jobs)))
            list(pool.map(piece, range(0, len(stays), PIECE)))
        self._count(outcomes)
        outcomes[outcomes["end"] == End.SAME] = unspoilt[0]
        return self._judged(outcomes, int(unspoilt["evidence"][0]))

    def _stay(self, machine: Path, limit: int, plan: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Outcomes of faults that stay; where the same were injected into the same before, they are in a file."""
        digest = hashlib.sha256(b"%d" % limit + plan.tobytes() + self.program.read_bytes())
        for row in machine.read_text().splitlines():
            file = Path(row.split(" ", 3)[3])
            digest.update(row.encode() + (file.read_bytes() if file.is_file() else b""))
        key = digest.hexdigest()[:16]
        said, rows, out, kept = (self.folder / f"{name}-{key}" for name in ("said", "plan", "out", "kept"))
        if not kept.exists():
            said.unlink(missing_ok=True)
            plan.tofile(rows)
            self._call(machine, "stay", limit, said, rows, out)
            rows.unlink()
            out.rename(kept)
        return np.fromfile(kept, OUTCOME)

    def _judged(self, outcomes: npt.NDArray[Any], unspoilt: int) -> npt.NDArray[Any]:
        """The same outcomes, with what the log and the attestation of a trace are worth that was to be refused."""
        if not self.device.features.evidence.log or self.attempt.trace:
            return outcomes
        said = self.said()
        for number in np.unique(outcomes["evidence"]).tolist():
            if number:  # without one the run ended in a way that leaves no outcome
                verdict = evidence.judge(said[number], said[unspoilt])
                mine = outcomes["evidence"] == number
                outcomes["claimed"][mine], outcomes["spoilt"][mine] = verdict.claimed, verdict.spoilt
                outcomes["leaked"][mine] |= verdict.revealed
        return outcomes


def whose(places: list[Place], index: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Whether each instruction of a run is ours; memcpy and the like (string.S) belong to whoever calls them."""
    kinds = np.array([-1 if place.line.startswith("string.S") else place.is_ours for place in places], np.int8)
    each = kinds[index]
    latest = np.maximum.accumulate(np.where(each >= 0, np.arange(len(each), dtype=np.uint32), np.uint32(0)))
    found: npt.NDArray[np.bool_] = each[latest] == 1
    return found


def _says_ok(outcomes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (outcomes["answered"] != 0) & (outcomes["status"] == value_of("OK"))
    return found


def _counted(outcomes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = outcomes["replays"] == REPLAYS
    return found


def accepted(outcomes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where the normal world believes in a replay: the answer says OK, with all replays counted (mailbox.py)."""
    return _says_ok(outcomes) & _counted(outcomes)


def contradicts(outcomes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where the answer says OK, and counts another number of replays: the normal world refuses it as an error."""
    return _says_ok(outcomes) & ~_counted(outcomes)


def written(outcomes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where a register was written that only a trace writes."""
    found: npt.NDArray[np.bool_] = outcomes["from_trace"] != 0
    return found
