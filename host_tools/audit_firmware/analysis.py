# SPDX-License-Identifier: BSD-2-Clause
"""All that is found out about a firmware's code, before anything is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from host_tools.audit_firmware.bounds import Bounds
from host_tools.audit_firmware.constants import Table, tables
from host_tools.audit_firmware.flow import Flow, clobbered, flow_of
from host_tools.audit_firmware.image import Image
from host_tools.audit_firmware.instructions import Register
from host_tools.audit_firmware.loops import Loop, Movers, loops
from host_tools.audit_firmware.mmio import Store, Stores
from host_tools.audit_firmware.places import Places
from host_tools.audit_firmware.pointers import Known, pointers
from host_tools.audit_firmware.program import Function, Program
from host_tools.audit_firmware.stack import Frames, Worst, frames, worst
from host_tools.audit_firmware.target import Target
from host_tools.audit_firmware.values import Frame, Values

PTA_SOURCE = "gramophone.c"  # one file: tee_replayer/optee/gramophone.c includes the others
# Variables of the pseudo-TA that hold where a device is mapped (tee_replayer/optee/optee_port.c).
PTA_DEVICES = {"gpu": "gpu", "distributor": "gic", "firewall": "firewall"}
SYSTEM = frozenset(
    (
        *("mrs", "msr", "smc", "hvc", "svc", "hlt", "brk", "eret", "drps", "dcps1", "dcps2", "dcps3"),
        *("dc", "ic", "tlbi", "at", "sys", "sysl", "cfp", "dvp", "cpp"),
        *("wfi", "wfe", "sev", "sevl", "dsb", "dmb", "isb", "yield"),
    )
)


@dataclass(frozen=True)
class SystemInstruction:
    """An instruction of the system: where, and in words without general registers."""

    address: int
    words: str


class Analysis:
    """What a firmware's code does.

    Attributes:
        image: which.
        target: what it is for.
        program: its functions; of OP-TEE's core those of the pseudo-TA.
        frames: the stack pointer, by function.
        flows: where values come from, by function.
    """

    def __init__(self, image: Image, target: Target) -> None:
        self.image, self.target = image, target
        self.is_pta = target.board is not None and target.board.runs_optee
        scope = None
        if self.is_pta:
            scope = frozenset(
                row.address for row in image.symbols if row.file == PTA_SOURCE and row.kind == "FUNC" and row.size
            )
        self.program = Program(image, scope)
        self.frames: dict[int, Frames] = {row.start: frames(row) for row in self.program.running}
        clobbers = clobbered(self.program)
        self.flows: dict[int, Flow] = {
            row.start: flow_of(row, self.frames[row.start], clobbers) for row in self.program.running
        }

    @cached_property
    def loops(self) -> dict[int, list[Loop]]:
        """Loops by function."""
        movers = Movers.of(self.program)
        return {
            row.start: list(loops(self.program, row, self.flows[row.start], movers))
            for row in self.program.running
        }

    @cached_property
    def values(self) -> Values:
        """What registers can hold."""
        cells = {}
        for variable, device in PTA_DEVICES.items() if self.is_pta else ():
            symbol = next((s for s in self.image.symbols if s.name == variable and s.file == PTA_SOURCE), None)
            if symbol and device in self.target.regions:
                cells[symbol.address] = self.target.regions[device].base
        return self._values(cells)

    def _values(self, cells: Mapping[int, int], known: Known | None = None) -> Values:
        before = {start: found.before for start, found in self.frames.items()}
        bounds = Bounds(self.loops, self.flows)
        return Values(self.program, self.flows, before, bounds, cells, self.places, known)

    @cached_property
    def values_with_pointers(self) -> Values:
        """The same, with the pointers that are kept on the stack."""
        return pointers(self.program, self.flows, lambda known: self._values({}, known), self.places)

    @cached_property
    def places(self) -> Places:
        """Devices and memory."""
        return Places(self.target.regions)

    @cached_property
    def worst(self) -> dict[int, Worst]:
        """Worst-case stack by function."""
        return worst(self.program, self.frames)

    @cached_property
    def tables(self) -> list[Table]:
        """The allow list."""
        return tables(self.image, self.target.profile) if self.target.profile else []

    @cached_property
    def finders(self) -> frozenset[int]:
        """Functions that look registers up in the allow list."""
        places = {row.address for row in self.tables if row.name == "registers" and row.address is not None}
        return frozenset(row.start for row in self.program.running if self._refers(row, places))

    @cached_property
    def checkers(self) -> frozenset[int]:
        """Functions that call those."""
        return frozenset(
            row.start for row in self.program.running if any(call.target in self.finders for call in row.calls)
        )

    @cached_property
    def stores(self) -> list[Store]:
        """All stores, on every way to them that matters."""
        return list(self.store_finder.all())

    @cached_property
    def store_finder(self) -> Stores:
        """What tells where stores go."""
        return Stores(
            self.program, self.values, self.flows, self.places, self.finders, self.finders | self.checkers
        )

    @cached_property
    def system(self) -> list[SystemInstruction]:
        """All instructions of the system, in the order of their addresses."""
        found = {}
        for function in self.program.running:
            for at, row in function.instructions.items():
                if row.mnemonic in SYSTEM:
                    rest = [f"#{item:#x}" if isinstance(item, int) else item for item in row.operands]
                    words = " ".join([row.mnemonic, *(item for item in rest if isinstance(item, str))])
                    found[at] = SystemInstruction(at, words)
        return [found[at] for at in sorted(found)]

    @cached_property
    def numbers(self) -> frozenset[int]:
        """64-bit numbers that the code makes of parts or loads from beside itself."""
        found = set()
        for function in self.program.running:
            for row in function.instructions.values():
                if row.mnemonic == "movk":
                    value = self.values.result(Frame(function), row)
                    if value.is_single:
                        found.add(value.low)
        for address, size in self.program.literals:
            found.add(int.from_bytes(self.image.read(address, size), "little"))
        return frozenset(found)

    @cached_property
    def stack(self) -> tuple[int, int] | None:
        """The stack: (lowest address, address after it); None where start-up code does not show it."""
        low = self.image.symbol("gr_stack_start") or self.image.symbol("gr_bss_end")
        high = self.image.symbol("gr_stack_end")
        if low and high:
            return low.address, high.address
        for entry in self.image.entries:
            function = self.program.functions.get(entry)
            for at in self.frames[entry].resets if function else ():
                assert function is not None
                row = function.instructions[at]
                source = next((item for item in row.operands[1:] if isinstance(item, Register)), None)
                top = self.values.register(Frame(function), at, source) if source else None
                if top is None or not top.is_single:
                    continue
                # Start-up code loads the end of the data too, to clear it: the stack begins there.
                loaded = {
                    int.from_bytes(self.image.read(row.operands[-1], 8), "little")
                    for row in function.instructions.values()
                    if row.mnemonic == "ldr" and isinstance(row.operands[-1], int)
                }
                below = [number for number in loaded if top.low - (1 << 20) <= number < top.low]
                if below:
                    return max(below), top.low
        return None

    def _refers(self, function: Function, places: set[int]) -> bool:
        """Whether a function computes one of these addresses."""
        for at, row in function.instructions.items():
            last = row.operands[-1] if row.operands else None
            if row.mnemonic == "adr" and last in places:
                return True
            if row.mnemonic != "add" or not isinstance(last, int) or len(row.registers) != 2:
                continue
            for source in self.flows[function.start].sources(at, row.registers[1].number):
                page = function.instructions.get(source)
                base = page.operands[-1] if page is not None and page.mnemonic == "adrp" else None
                if isinstance(base, int) and base + last in places:
                    return True
        return False
