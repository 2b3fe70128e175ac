# SPDX-License-Identifier: BSD-2-Clause
"""From the register accesses of Arm's kbase driver (job manager GPUs) to actions; panfrost.py builds on it.

Every access becomes an action, in order, except those that carry an address of the recorded machine: writes of an
address space's table, attributes and configuration, in whose place the replayer's driver sets its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from host_tools.families.conversion import IRQ_TIMEOUT_US
from host_tools.gpus.mali import job_manager as mali
from host_tools.gpus.mali.mali_tables import FORMATS
from trace_format.actions import ALL_BITS, Action, Op, action
from trace_format.errors import TraceError
from trace_format.profile import Profile
from trace_format.registers import Register

FLUSH_ID = 0  # which kept value carries the live flush id


class AccessError(TraceError):
    """A register access that this GPU does not have, or that cannot be replayed."""


@dataclass(frozen=True)
class Access:
    """One register access.

    Attributes:
        offset: where it stands in the file, in bytes.
        delay_ns: time since the one before.
        write: direction.
        register: which one.
        value: read or written.
    """

    offset: int
    delay_ns: int
    write: bool
    register: Register
    value: int


@dataclass(frozen=True)
class Chain:
    """A job chain that was submitted.

    Attributes:
        offset: where the submission stands in the file, in bytes.
        head: GPU virtual address of its first job header.
        space: address space.
    """

    offset: int
    head: int
    space: int


@dataclass
class Stream:
    """Actions made of accesses.

    Attributes:
        actions: records of ACTION_DTYPE.
        chains: submitted job chains, in order.
        spaces: address spaces that were pointed at a page table.
        cores: shader cores that jobs may run on, a bit each.
        restart: index of the action from which a replay can be repeated; None where only the whole can.
    """

    actions: list[Action] = field(default_factory=list)
    chains: list[Chain] = field(default_factory=list)
    spaces: set[int] = field(default_factory=set)
    cores: int = 0
    restart: int | None = None


def find(gpu: Profile, offset: int, write: bool) -> Register | str:
    """The register at a byte offset of the window, or why it cannot be accessed so."""
    if offset % 4 or offset >= gpu.window_bytes:
        return f"no register of the window of {gpu.window_bytes:#x} bytes lies at {offset:#x}"
    register = gpu.by_offset.get(offset)
    if register is None:
        return f"unknown register {offset:#06x}"
    if not (register.writable if write else register.readable):
        return f"{register.name} is {'read' if write else 'write'}-only"
    return register


def any_table(access: Access, space: int, table: int) -> None:
    """A `check_table` that checks nothing."""


class Converter:
    """Holds what the registers were last written, as far as later accesses depend on it."""

    def __init__(self, gpu: Profile, check_table: Callable[[Access, int, int], None] = any_table) -> None:
        self.gpu = gpu
        self.check_table = check_table
        self.formats = [FORMATS[gpu.mmu["format"]]]  # that address spaces may be set to
        self.starts = {job.start.offset for job in gpu.jobs}
        self.written: dict[str, int] = {}
        self.flush_ids: set[int] = set()
        self.kept_at: int | None = None
        self.rest_ns = 0
        self.stream = Stream()

    def take(self, access: Access) -> None:
        """Add what an access means."""
        self.rest_ns += access.delay_ns
        if self.rest_ns >= 1000 and self.stream.actions:
            self._add(Op.INTERVAL, value=min(self.rest_ns // 1000, ALL_BITS))
        self.rest_ns %= 1000
        if access.write:
            self.write(access)
        else:
            self.read(access)

    def _add(self, op: Op, **operands: int) -> None:
        self.stream.actions.append(action(op, **operands))

    def read(self, access: Access) -> None:
        """Add what a read means."""
        register, value = access.register, access.value
        if register.name == "gpu.LATEST_FLUSH":
            self.kept_at = len(self.stream.actions)
            self.flush_ids.add(value)
            self._add(Op.REG_READ_KEEP, arg=register.index, b=FLUSH_ID)
            return
        block, _, name = register.name.partition(".")
        if name == "IRQ_STATUS" and value:  # read by interrupt handlers: the line was active
            self._add(Op.WAIT_IRQ, arg=self.gpu.interrupts.index(block), value=IRQ_TIMEOUT_US)
        self._add(Op.REG_READ_ONCE, arg=register.index, value=value, a=ALL_BITS)

    def write(self, access: Access) -> None:
        """Add what a write means.

        Raises:
            AccessError: page table format, flush id or address space that cannot be replayed.
        """
        register, value = access.register, access.value
        self.written[register.name] = value
        block, _, name = register.name.partition(".")
        if register.driver:
            self._driver_register(access, int(block[2:]), name)
            return
        if name == "COMMAND" and block.startswith("as") and value == mali.SpaceCommand.UPDATE:
            self._update(access, int(block[2:]))
        if name == "FLUSH_ID_NEXT":
            self._flush_id(access)
            return
        if block == "gpu" and (("_PWRO" in name and value) or (name == "COMMAND" and value in mali.RESETS)):
            self.stream.restart = None  # once there are jobs: the GPU is not left as the first one found it
        if register.offset in self.starts and value == mali.START:
            self._submit(access, block)
        self._add(Op.REG_WRITE, arg=register.index, value=value, a=ALL_BITS)

    def _pair(self, block: str, name: str) -> int:
        return self.written.get(f"{block}.{name}_LO", 0) | self.written.get(f"{block}.{name}_HI", 0) << 32

    def _driver_register(self, access: Access, space: int, name: str) -> None:
        if name == "TRANSTAB_LO" and access.value:
            self.stream.spaces.add(space)
            self._add(Op.SET_GPU_PGTABLE, arg=space)

    def _update(self, access: Access, space: int) -> None:
        block = f"as{space}"
        base, config = self._pair(block, "TRANSTAB"), self._pair(block, "TRANSCFG")
        if any(layout.is_unmapped(base, config) for layout in self.formats):
            return
        found = next((layout for layout in self.formats if layout.is_set(base, config)), None)
        if found is None:
            raise AccessError(
                f"address space {space} is set to another page table format",
                offset=access.offset,
                expected=f"TRANSCFG with {' or '.join(layout.title for layout in self.formats)}",
                found=f"TRANSCFG {config:#x}, TRANSTAB {base:#x}",
            )
        self.check_table(access, space, found.table(base))

    def _flush_id(self, access: Access) -> None:
        if access.value not in self.flush_ids:
            raise AccessError(
                "a flush id that was never read",
                offset=access.offset,
                expected="a value that LATEST_FLUSH had before",
                found=f"{access.value:#x}",
            )
        self._add(Op.REG_WRITE_KEPT, arg=access.register.index, b=FLUSH_ID)

    def _submit(self, access: Access, block: str) -> None:
        if not self.stream.chains:
            self.stream.restart = len(self.stream.actions) if self.kept_at is None else self.kept_at
        self._add(Op.JOB, value=len(self.stream.chains))
        self._note_chain(access, block)

    def _note_chain(self, access: Access, block: str) -> None:
        space = self.written.get(f"{block}.CONFIG_NEXT", 0) & mali.CONFIG_SPACE
        if space not in self.stream.spaces:
            raise AccessError(
                "a job in an address space that has no page table",
                offset=access.offset,
                expected=f"one of {sorted(self.stream.spaces)}",
                found=space,
            )
        self.stream.cores |= self._pair(block, "AFFINITY_NEXT")
        self.stream.chains.append(Chain(access.offset, self._pair(block, "HEAD_NEXT"), space))


def convert(
    accesses: Iterable[Access],
    gpu: Profile,
    *,
    check_table: Callable[[Access, int, int], None] = any_table,
) -> Stream:
    """Turn register accesses into actions.

    Args:
        accesses: in order.
        gpu: profile that the accesses' registers are of.
        check_table: called with (access, address space, table) when an address space is pointed at a page table.

    Raises:
        AccessError: page table format, flush id or address space that cannot be replayed.
    """
    converter = Converter(gpu, check_table)
    for access in accesses:
        converter.take(access)
    return converter.stream
