# SPDX-License-Identifier: BSD-2-Clause
"""What an audit found, as the fields of JSON and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from host_tools.audit.findings import counts_of, line, summary
from host_tools.audit_firmware.analysis import Analysis
from host_tools.audit_firmware.asked import findings as differences
from host_tools.audit_firmware.asked import not_compared
from host_tools.audit_firmware.judge import findings, not_judged, not_known
from host_tools.audit_firmware.mmio import COMPUTED, FIXED, POINTER, Store
from host_tools.audit_firmware.rebuild import Rebuilt
from host_tools.audit_firmware.results import (
    DeviceStore,
    FindingFacts,
    FirmwareFacts,
    FunctionFacts,
    Guard,
    SectionFacts,
    SegmentFacts,
    StackFacts,
    SystemInstruction,
    WorstStack,
)
from host_tools.audit_firmware.rules import FirmwareFinding
from signing.trust import Anchor, describe
from tee_replayer.generator.device_record import DeviceRecord

SHOWN_FUNCTIONS = 10


@dataclass(frozen=True)
class Audit:
    """The audit of one firmware."""

    analysis: Analysis
    findings: tuple[FirmwareFinding, ...]
    not_judged: Mapping[str, str]
    not_known: tuple[str, ...]
    rebuilt: Rebuilt | None = None
    asked: DeviceRecord | None = None


def audit(
    analysis: Analysis,
    key: Anchor | None = None,
    rebuilt: Rebuilt | None = None,
    asked: DeviceRecord | None = None,
) -> Audit:
    """Judge a firmware."""
    found = [*findings(analysis, key), *(differences(analysis, asked) if asked else ())]
    found += rebuilt.findings if rebuilt else ()
    is_rebuilt = rebuilt is not None
    skipped = not_judged(analysis, has_key=key is not None, has_device=asked is not None, is_rebuilt=is_rebuilt)
    if asked and not is_rebuilt:
        skipped["GF609"] = not_compared(analysis)
    unknown = not_known(analysis, is_rebuilt=is_rebuilt)
    return Audit(analysis, tuple(found), skipped, unknown, rebuilt, asked)


def as_data(found: Audit, reasons: Mapping[int, str]) -> FirmwareFacts:
    """The fields for `--json`; `reasons`: index of a finding that is accepted -> why."""
    analysis, device = found.analysis, found.analysis.target.device
    program = analysis.program
    return FirmwareFacts(
        name=analysis.image.name,
        kind=analysis.image.kind,
        sha256=analysis.image.sha256,
        flashed_sha256=analysis.image.flashed_sha256,
        has_symbols=bool(analysis.image.symbols),
        platform=analysis.target.platform or None,
        gpu=analysis.target.profile.name if analysis.target.profile else None,
        key_id=device.key.kid.hex() if device else None,
        min_security_version=device.min_security_version if device else None,
        profile=(found.asked.features.profile or None) if found.asked else None,
        features=found.asked.features.names if found.asked else None,
        segments=[SegmentFacts(s.address, s.size, len(s.data), s.flags) for s in analysis.image.segments],
        sections=[SectionFacts(s.name, s.address, s.size, s.flags) for s in analysis.image.sections],
        functions=[
            FunctionFacts(
                name=row.name,
                address=row.start,
                bytes=row.bytes,
                stack=analysis.frames[row.start].depth,
                worst_stack=analysis.worst[row.start].bytes,
                calls=sorted({callee.name for call, callee in program.callees(row) if call.target is not None}),
                indirect_calls=[call.at for call in row.calls if call.target is None],
            )
            for row in program.running
        ],
        stack=_stack(analysis),
        system_instructions=[
            SystemInstruction(row.address, program.name(row.address), row.words) for row in analysis.system
        ],
        loops=dict(sorted(Counter(loop.kind for rows in analysis.loops.values() for loop in rows).items())),
        stores=dict(sorted(Counter(store.kind for store in analysis.stores).items())),
        device_stores=[_device_store(analysis, store) for store in _to_devices(analysis)],
        findings=[
            FindingFacts(
                item.rule.id,
                item.rule.severity.value,
                item.where or None,
                item.address,
                item.text,
                reasons.get(index),
            )
            for index, item in enumerate(found.findings)
        ],
        not_judged=found.not_judged,
        not_known=found.not_known,
        rebuilt_with=found.rebuilt.tools if found.rebuilt else None,
    )


def _stack(analysis: Analysis) -> StackFacts:
    room = analysis.stack
    return StackFacts(
        bytes=room[1] - room[0] if room else None,
        worst=[
            WorstStack(
                entry=analysis.program.name(entry),
                bytes=analysis.worst[entry].bytes,
                is_bound=analysis.worst[entry].is_bound,
                path=analysis.worst[entry].path,
            )
            for entry in (analysis.image.entries if not analysis.is_pta else ())
            if entry in analysis.worst
        ],
    )


def _to_devices(analysis: Analysis) -> list[Store]:
    memory = ("rom", "ram", "carveout", "mailbox")
    return [store for store in analysis.stores if store.kind in (FIXED, COMPUTED) and store.region not in memory]


def _device_store(analysis: Analysis, store: Store) -> DeviceStore:
    name, target = analysis.program.name, analysis.target
    guard = None
    if store.kind == COMPUTED and store.region == "gpu":
        found = analysis.store_finder.guard(store)
        guard = Guard(
            lookup=None if found.lookup is None else name(found.lookup),
            found=None if found.found is None else name(found.found),
            compared=None if found.compared is None else name(found.compared),
            masked=found.masked,
        )
    registers = []
    if store.region == "gpu" and target.profile:
        base = target.regions["gpu"].base
        registers = [target.profile.describe(address - base) for address in store.addresses]
    return DeviceStore(
        address=store.at,
        where=name(store.at),
        way=[name(at) for at in store.way],
        device=store.region or None,
        targets=store.addresses,
        registers=registers,
        guard=guard,
    )


def as_text(found: Audit, reasons: Mapping[int, str]) -> str:
    """The same for people, shorter."""
    analysis = found.analysis
    program, target = analysis.program, analysis.target
    code = sum(row.bytes for row in program.running)
    symbols = "with symbols" if analysis.image.symbols else "without symbols"
    gpu = target.profile.title if target.profile else "an unknown GPU"
    lines = []
    if found.not_known:
        lines.append(f"NOT KNOWN without --rebuild: {'; '.join(found.not_known)}")
    lines += [f"{analysis.image.name}: {symbols}, for {gpu} on {target.platform or 'an unknown board'}"]
    lines.append(f"file             sha256 {analysis.image.sha256}")
    lines.append(f"flashed          sha256 {analysis.image.flashed_sha256 or 'of several pieces: none'}")
    if target.device:
        lines.append(
            f"trusts           {describe(target.device.key)}, security version "
            f"{target.device.min_security_version} or newer"
        )
    if found.asked:
        lines.append(f"device file      {found.asked.features.words}")
    for segment in analysis.image.segments if not analysis.is_pta else ():
        lines.append(f"segment          {segment.address:#x}, {segment.size} bytes, {segment.flags}")
    lines.append(f"code             {code} bytes in {len(program.running)} functions; the largest:")
    largest = sorted(program.running, key=lambda row: -row.bytes)[:SHOWN_FUNCTIONS]
    lines += [f"{row.bytes:12}  {row.name}" for row in largest]
    lines += _stack_lines(analysis)
    kinds = Counter(row.words for row in analysis.system)
    words = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in sorted(kinds.items()))
    lines.append(f"system           {words or 'none'}")
    indirect = [program.name(call.at) for row in program.running for call in row.calls if call.target is None]
    lines.append(f"indirect calls   {', '.join(indirect) or 'none'}")
    loops = Counter(loop.kind for rows in analysis.loops.values() for loop in rows)
    lines.append(f"loops            {', '.join(f'{count} {kind}' for kind, count in sorted(loops.items()))}")
    lines += _store_lines(analysis)
    if found.rebuilt:
        tools = ", ".join(f"{name} {version}" for name, version in found.rebuilt.tools.items())
        same = "other bytes" if found.rebuilt.findings else "the same bytes"
        lines.append(f"rebuilt          {same}, with {tools}")
    lines += [f"not judged       {rule}: {why}" for rule, why in found.not_judged.items()]
    lines += [line(item, reasons.get(index)) for index, item in enumerate(found.findings)]
    lines.append(summary(counts_of(found.findings, reasons)))
    return "\n".join(lines)


def _stack_lines(analysis: Analysis) -> list[str]:
    if analysis.is_pta:
        return ["stack            the core's; what its own functions call is not followed"]
    lines = []
    for entry in analysis.image.entries:
        worst = analysis.worst.get(entry)
        if worst:
            bound = "at most" if worst.is_bound else "at least"
            lines.append(f"stack            {bound} {worst.bytes} bytes from {analysis.program.name(entry)}:")
            lines.append(f"                 {' > '.join(worst.path)}")
    if analysis.stack:
        lines.append(f"                 of {analysis.stack[1] - analysis.stack[0]}")
    return lines


def _store_lines(analysis: Analysis) -> list[str]:
    stores = _to_devices(analysis)
    pointers = sum(store.kind == POINTER for store in analysis.stores)
    lines = [f"stores           {len(stores)} to devices, {pointers} through pointers (not followed)"]
    by_device = Counter(store.region or "other devices" for store in stores if store.kind == FIXED)
    lines += [f"{count:12}  to fixed registers: {device}" for device, count in sorted(by_device.items())]
    for store in stores:
        if store.kind == COMPUTED:
            row = _device_store(analysis, store)
            guard = row.guard
            names = (("lookup", "looked up"), ("found", "tested"), ("compared", "compared"))
            places = [f", {text} at {getattr(guard, name) or 'no place'}" for name, text in names] if guard else []
            checks = "".join(places)
            lines.append(f"              to a computed register of {store.region}: {row.where}{checks}")
    return lines
