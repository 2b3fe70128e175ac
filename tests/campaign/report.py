# SPDX-License-Identifier: BSD-2-Clause
"""What became of faults: counts, a table, and findings by address."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import capstone
import numpy as np
import numpy.typing as npt

from tee_replayer.generator.status import statuses
from tests.campaign import runner
from tests.campaign.device import Place
from tests.campaign.faults import Do, Run
from trace_format import profile

COLUMNS = (
    "instructions",
    "tried",
    "refused",
    "crashed",
    "hung",
    "contradictory",
    "harmless",
    "foreign",
    "accepted",
    "written",
    "unnoticed",
    "claimed",
    "leaked",
    "strayed",
    "spoilt",
)


@dataclass
class Counts:
    """Of one kind of fault in one case.

    Attributes:
        instructions: executed, of those that can have the fault.
        tried: faults injected, one a run.
        refused: the firmware answered, with something else than success.
        crashed: an exception, or no answer.
        hung: still running long after the end of a run without a fault.
        contradictory: an answer that says success without all replays; the normal world takes it for an error.
        harmless: a good trace was replayed, whatever it computed; or a hostile one of a good signer, but without
            what it must not do: the fault hit a copy of the trace, and made it another one.
        foreign: it went on in memory of the normal world. An MMU forbids that, which every board of silicon has
            on; the emulated machine's firmware runs without.
        accepted: the normal world believes that the trace was replayed.
        written: a register was written that only a trace writes, whatever else happened.
        unnoticed: of those, the control goes on working with the fault, which stays: nobody notices.
        claimed: the log or an attestation says that a trace was loaded or replayed, which they do not say without
            the fault, and no verifier notices.
        leaked: some of a device's secrets was in memory of the normal world, or follows from what was there.
        strayed: memory of the normal world has changed where no answer is written to.
        spoilt: a verifier of the log finds something wrong with it.
        promised: the design promises that nothing gets through: of one fault it does, of two it does not.
    """

    instructions: int = 0
    tried: int = 0
    refused: int = 0
    crashed: int = 0
    hung: int = 0
    contradictory: int = 0
    harmless: int = 0
    foreign: int = 0
    accepted: int = 0
    written: int = 0
    unnoticed: int = 0
    claimed: int = 0
    leaked: int = 0
    strayed: int = 0
    spoilt: int = 0
    promised: bool = True

    def add(self, outcomes: npt.NDArray[Any]) -> None:
        """Count outcomes."""
        accepted, contradicts = runner.accepted(outcomes), runner.contradicts(outcomes)
        is_over = (outcomes["end"] == runner.End.EXIT) & (outcomes["answered"] != 0)
        hung = outcomes["end"] == runner.End.HANG
        foreign = outcomes["end"] == runner.End.FOREIGN
        other = ~accepted & ~contradicts & ~foreign
        self.foreign += int(foreign.sum())
        self.tried += len(outcomes)
        self.accepted += int(accepted.sum())
        self.contradictory += int(contradicts.sum())
        self.refused += int((other & is_over).sum())
        self.hung += int((other & hung).sum())
        self.crashed += int((other & ~is_over & ~hung).sum())
        self.written += int(runner.written(outcomes).sum())
        self.strayed += int((outcomes["strayed"] != 0).sum())
        for name in ("claimed", "leaked", "spoilt"):
            setattr(self, name, getattr(self, name) + int((outcomes[name] != 0).sum()))

    def __iadd__(self, more: Counts) -> Counts:
        for name in COLUMNS:
            setattr(self, name, getattr(self, name) + getattr(more, name))
        return self

    @property
    def ok(self) -> bool:
        """Whether nothing got through."""
        return not (self.promised and (self.accepted or self.written or self.claimed or self.leaked))


@dataclass(frozen=True)
class Finding:
    """Faults at one address that got through.

    Attributes:
        where: device, case, kind of fault.
        address: of the instruction.
        text: the instruction.
        place: what it was compiled from.
        what: what happened.
        times: at how many executions of it; of faults that stay, how many of them.
    """

    where: tuple[str, str, str]
    address: int
    text: str
    place: Place
    what: str
    times: int

    def __str__(self) -> str:
        return (
            f"{', '.join(self.where)}: {self.address:#x} {self.text!r} in {self.place.function} "
            f"({self.place.line}): {self.what} ({self.times} times)"
        )


@dataclass
class Table:
    """Counts by (device, case, kind)."""

    rows: dict[tuple[str, str, str], Counts] = field(default_factory=dict)

    def lines(self) -> Iterable[str]:
        """The table, with totals."""
        yield f"{'device':<21} {'case':<9} {'fault':<17}" + "".join(f"{name:>14}" for name in COLUMNS)
        total = Counts()
        for (device, case, kind), counts in self.rows.items():
            total += counts
            yield f"{device:<21} {case:<9} {kind:<17}" + "".join(
                f"{getattr(counts, name):>14,}" for name in COLUMNS
            )
        yield f"{'all':<49}" + "".join(f"{getattr(total, name):>14,}" for name in COLUMNS)


def effect(gpu: str, outcome: Any) -> str:
    """What one fault led to, in words."""
    one = outcome.reshape(1)
    said = []
    if outcome["answered"]:
        status = statuses().get(int(outcome["status"]))
        said.append(
            f"the answer is {status.name if status else hex(outcome['status'])}, {outcome['replays']} replays"
        )
    if runner.accepted(one)[0]:
        said.append("accepted")
    said += [name for name in ("claimed", "leaked") if outcome[name]]
    if runner.written(one)[0]:
        register = profile.load(gpu).describe(int(outcome["offset"]))
        said.append(f"wrote {register} = {outcome['value']:#x}")
    return ", ".join(said) or "no answer"


def findings(
    where: tuple[str, str, str], gpu: str, run: Run, plan: npt.NDArray[Any], outcomes: npt.NDArray[Any]
) -> list[Finding]:
    """The faults that got through or left a contradictory answer, by address.

    Args:
        where: device, case, kind of fault.
        gpu: the profile.
        run: the run without a fault.
        plan: the faults.
        outcomes: theirs.
    """
    bad = runner.accepted(outcomes) | runner.contradicts(outcomes) | runner.written(outcomes)
    bad |= (outcomes["claimed"] != 0) | (outcomes["leaked"] != 0)
    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    found = []
    addresses = run.where(plan)
    index = {address: at for at, address in enumerate(run.addresses.tolist())}
    for address in np.unique(addresses[bad]).tolist():
        mine = bad & (addresses == address)
        what = sorted({effect(gpu, outcome) for outcome in outcomes[mine]})
        stays = plan[mine & (plan["kind"] >= Do.STAY)]["operand"]
        bits = [one.bit_length() - 1 for one in stays.tolist() if one.bit_count() == 1]
        what += [f"bits {', '.join(map(str, bits))}"] if bits else []
        is_pair = mine & (plan["second_number"] != 0) & (plan["kind"] != Do.CONSTANT)
        for second in run.index[plan["second_number"][is_pair].astype(np.int64)]:
            place = run.places[second]
            what.append(f"then a fault at {run.addresses[second]:#x} in {place.function} ({place.line})")
        text, place = "a constant", Place("the code", "read as data", False)
        if address in index:
            word, place = run.words[index[address]], run.places[index[address]]
            decoded = next(decoder.disasm(word.to_bytes(4, "little"), address), None)
            text = f"{decoded.mnemonic} {decoded.op_str}" if decoded else f"{word:#010x}"
        found.append(Finding(where, address, text, place, "; ".join(what[:3]), int(mine.sum())))
    return found
