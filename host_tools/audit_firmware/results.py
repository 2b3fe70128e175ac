# SPDX-License-Identifier: BSD-2-Clause
"""What an audit of a firmware found, as the fields of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from host_tools.audit.findings import Counts, SeverityName
from host_tools.support.results import Count, Result, Sha256, one_of

Access = Annotated[str, Meta(pattern="^r?w?x?$")]


class SegmentFacts(Result):
    """Memory that is loaded.

    Attributes:
        bytes: In memory.
        stored_bytes: In the image.
    """

    address: Count
    bytes: Count
    stored_bytes: Count
    flags: Access


class SectionFacts(Result):
    """A section of an ELF file."""

    name: str
    address: Count
    bytes: Count
    flags: Access


class FunctionFacts(Result):
    """A function that can run.

    Attributes:
        stack: Bytes of its own frame.
        worst_stack: Bytes, with all that it calls.
        calls: Functions that it calls directly.
        indirect_calls: Addresses of calls through a register.
    """

    name: str
    address: Count
    bytes: Count
    stack: Count
    worst_stack: Count
    calls: list[str]
    indirect_calls: list[Count]


class WorstStack(Result):
    """The deepest stack from an entry.

    Attributes:
        is_bound: False: recursion or an unknown step makes it a lower bound only.
    """

    entry: str
    bytes: Count
    is_bound: bool
    path: Sequence[str]


class StackFacts(Result):
    """The stack.

    Attributes:
        bytes: Room for it; null: not known.
    """

    bytes: Count | None
    worst: list[WorstStack]


class SystemInstruction(Result):
    """An instruction of the system.

    Attributes:
        words: Without general registers.
    """

    address: Count
    where: str
    words: str


class Guard(Result):
    """Checks on every way to a computed register of the GPU; null: there is none."""

    lookup: str | None
    found: str | None
    compared: str | None
    masked: bool


class DeviceStore(Result):
    """A store to a device.

    Attributes:
        way: Calls that lead to it, the innermost first.
        device: Of the board's description; null: none of them.
        targets: All addresses that it can reach; empty: computed.
        registers: The same as names, of the GPU.
    """

    address: Count
    where: str
    way: list[str]
    device: str | None
    targets: Sequence[Count]
    registers: list[str]
    guard: Guard | None


class FindingFacts(Result):
    """What breaks a rule.

    Attributes:
        rule: As in docs/FIRMWARE-RULES.md.
        where: Function and offset, section, table; null: the image as a whole.
        allowed: The reason, of one that --allow names.
    """

    rule: str
    severity: SeverityName
    where: str | None
    address: Count | None
    text: str
    allowed: str | None


class FirmwareFacts(Result):
    """A firmware.

    Attributes:
        name: File, or image and piece.
        sha256: Of the file or piece.
        flashed_sha256: Of the bytes that are flashed; null of what is not flashed in one piece.
        platform: Board or environment; null: the firmware does not say.
        gpu: GPU profile; null: none that is known.
        key_id: Of the device's key, in hex.
        profile: Of the device file; null: there is none, or no profile has its features.
        features: Of the device file; null: there is none.
        functions: Those that can run; of OP-TEE's core the pseudo-TA's.
        loops: Loops by what bounds them.
        stores: Stores by kind, each counted for every way to it that matters.
        not_judged: Rule that was not applied -> why.
        not_known: What the image alone cannot show; empty with --rebuild.
        rebuilt_with: Tool -> version; null without --rebuild.
    """

    name: str
    kind: Annotated[str, one_of("elf", "raw")]
    sha256: Sha256
    flashed_sha256: Sha256 | None
    has_symbols: bool
    platform: str | None
    gpu: str | None
    key_id: str | None
    min_security_version: Count | None
    profile: str | None
    features: Sequence[str] | None
    segments: list[SegmentFacts]
    sections: list[SectionFacts]
    functions: list[FunctionFacts]
    stack: StackFacts
    system_instructions: list[SystemInstruction]
    loops: dict[str, Count]
    stores: dict[str, Count]
    device_stores: list[DeviceStore]
    findings: list[FindingFacts]
    not_judged: Mapping[str, str]
    not_known: Sequence[str]
    rebuilt_with: Mapping[str, str] | None


class FirmwareAudited(Result):
    """What a compiled firmware does, and what in it breaks a rule."""

    firmware: list[FirmwareFacts]
    counts: Counts
