# SPDX-License-Identifier: BSD-2-Clause
"""What is found out about a firmware, against the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from host_tools.audit_firmware import constants, control, expected, mapping, rules
from host_tools.audit_firmware.analysis import Analysis
from host_tools.audit_firmware.arguments import passed
from host_tools.audit_firmware.leaks import Leaks
from host_tools.audit_firmware.loops import NONE
from host_tools.audit_firmware.mmio import COMPUTED, FIXED, POINTER, Store
from host_tools.audit_firmware.rules import RULES, FirmwareFinding
from host_tools.audit_firmware.stack import recursions
from host_tools.audit_firmware.unknown import unknown
from signing.curves import KNOWN_ANSWER_KEY
from signing.trust import Anchor, Policy
from signing.trust_keys import ES256_BYTES
from tee_replayer.generator.amalgamate import HAS_TRUST
from trace_format.schema.log import LogKind

# The replay log's function, and the register with the kind of its entry (its second parameter; AAPCS64, 6.8.2).
LOG_APPEND, LOG_APPEND_KIND = "gr_log_append", 1
VERIFY, VERIFY_KEY = "gr_signature_verify", 1  # likewise
TRUST_COPIES = 2  # tee_replayer/generator/device.py: one for each judgement
MMU_OFF = "gr_mmu_off"
SHOWN = 8  # places of one finding
# Fields of the section for runners -> (region, field) of the board's description.
_BOARD = {
    "gpu_base": "gpu",
    "carveout_base": "carveout",
    "mailbox_base": "mailbox",
    "gic_base": "gic",
    "uart_base": "uart",
    "power_base": "power",
}


def findings(analysis: Analysis, key: Anchor | None = None) -> list[FirmwareFinding]:
    """All findings, in the order of the rules.

    Args:
        analysis: of the firmware.
        key: whose traces it is to accept; None: that is not judged.
    """
    found = [*_layout(analysis), *_instructions(analysis), *control.findings(analysis)]
    found += [*_stack(analysis), *_loops(analysis), *_key(analysis)]
    found += [*_stores(analysis), *_constants(analysis, key), *mapping.findings(analysis), *_steps(analysis)]
    return sorted(found, key=lambda item: item.rule.id)


def not_known(analysis: Analysis, *, is_rebuilt: bool) -> tuple[str, ...]:
    """What findings cannot be about, in words; nothing of an image that was built again, whatever that gave."""
    if is_rebuilt:
        return ()
    return tuple(kind.words for kind in rules.UNKNOWN.values() if not (kind.bare and analysis.image.symbols))


def not_judged(analysis: Analysis, *, has_key: bool, has_device: bool, is_rebuilt: bool) -> dict[str, str]:
    """Rules that were not applied, and why."""
    found = {}
    if analysis.is_pta and not analysis.image.symbols:
        why = "without symbols the pseudo-TA is not told from the rest of OP-TEE's core"
        found = {name: why for name in RULES if name < "GF6" or name in ("GF605", "GF701")}
    for rule in RULES.values():
        if rule.needs == rules.SYMBOLS and not analysis.image.symbols:
            found[rule.id] = "the image has no symbols"
        elif rule.needs == "ELF headers" and analysis.image.kind != "elf":
            found[rule.id] = "the image has no ELF headers"
        elif rule.needs == rules.KEY and not has_key:
            found[rule.id] = "no --key was given"
        elif rule.needs == rules.DEVICE and not has_device:
            found[rule.id] = "no --device was given, and no device.toml is beside the image"
        elif rule.needs == rules.REBUILD and not is_rebuilt:
            found[rule.id] = "no --rebuild was asked for"
    if analysis.is_pta and analysis.image.symbols:
        for name in ("GF102", "GF103", "GF104", "GF302", "GF606", "GF607"):
            found[name] = "it is about the whole core, of which the pseudo-TA is a part"
        found["GF505"] = "the normal world's memory has no fixed place in OP-TEE"
        found["GF608"] = "the core verifies signatures, behind a seam of the pseudo-TA"
    elif analysis.target.board is None:
        found["GF606"] = found["GF607"] = "no description of the board: --board names one"
    if analysis.target.profile is None:
        for name in ("GF501", "GF604", "GF605", "GF701"):
            found[name] = "its GPU profile is not known here"
    return dict(sorted(found.items()))


def _layout(analysis: Analysis) -> Iterator[FirmwareFinding]:
    image, program = analysis.image, analysis.program
    parts = [(f"section {s.name}", s.address, s.flags) for s in image.sections if analysis.is_pta]
    parts += [(f"segment {i}", s.address, s.flags) for i, s in enumerate(image.segments) if not analysis.is_pta]
    parts += [(f"section {s.name}", s.address, s.flags) for s in image.sections if not analysis.is_pta]
    for where, address, flags in parts:
        if "w" in flags and "x" in flags:
            yield FirmwareFinding(RULES["GF101"], f"it is {flags}", where, address)
    if analysis.is_pta:
        return
    for function in program.running:
        for at, text in function.problems:
            yield FirmwareFinding(RULES["GF102"], text, program.name(function.start), at)
    for at, size, text in unknown(program):
        yield FirmwareFinding(RULES["GF103"], f"{size} bytes: {text}", _near(analysis, at), at)
    for row in image.symbols:
        if row.kind == "FUNC" and image.is_code(row.address) and row.address not in program.reached:
            yield FirmwareFinding(
                RULES["GF104"], "nothing calls it, and its address is nowhere", row.name, row.address
            )


def _near(analysis: Analysis, address: int) -> str:
    """The symbol that covers an address."""
    covering = [s for s in analysis.image.symbols if s.address <= address < s.address + max(s.size, 1)]
    return covering[-1].name if covering else ""


def _instructions(analysis: Analysis) -> Iterator[FirmwareFinding]:
    board = analysis.target.board
    allowed = expected.system_instructions(analysis.target.platform, mmu=board is not None and board.mmu)
    for row in analysis.system:
        if row.words not in allowed:
            where = analysis.program.name(row.address)
            yield FirmwareFinding(
                RULES["GF201"], f"{row.words}: firmware of this board has none", where, row.address
            )
    for function in analysis.program.running:
        for at, jump in function.instructions.items():
            frame = analysis.frames[function.start]
            is_last_call = frame.before.get(at) == 0 and not frame.resets and not frame.unknown
            if jump.mnemonic == "br" and not is_last_call:  # that is an indirect call like others
                yield FirmwareFinding(RULES["GF304"], jump.words, analysis.program.name(at), at)


def _stack(analysis: Analysis) -> Iterator[FirmwareFinding]:
    program = analysis.program
    direct = recursions(program, direct=True)
    for rule, groups in (("GF301", direct), ("GF305", recursions(program))):
        for group in groups:
            if rule == "GF301" or not any(set(group) & set(other) for other in direct):
                names = ", ".join(function.name for function in group)
                yield FirmwareFinding(
                    RULES[rule], f"these call each other: {names}", group[0].name, group[0].start
                )
    for start, frame in analysis.frames.items():
        for at in frame.unknown:
            text = "the stack pointer changes by an amount that the code does not show"
            yield FirmwareFinding(RULES["GF303"], text, program.name(at), at)
        for at in frame.resets if start not in analysis.image.entries else ():
            yield FirmwareFinding(RULES["GF303"], "the stack pointer is set", program.name(at), at)
    if analysis.is_pta:
        return
    if analysis.stack is None:
        yield FirmwareFinding(RULES["GF302"], "start-up code does not show where the stack is")
        return
    room = analysis.stack[1] - analysis.stack[0]
    for entry in analysis.image.entries:
        worst = analysis.worst.get(entry)
        if worst and worst.bytes > room:
            text = f"{worst.bytes} bytes at worst ({' > '.join(worst.path)}), {room} bytes of stack"
            yield FirmwareFinding(RULES["GF302"], text, program.name(entry), entry)


def _loops(analysis: Analysis) -> Iterator[FirmwareFinding]:
    for found in analysis.loops.values():
        for loop in found:
            if loop.kind == NONE:
                size = sum(len(loop.function.blocks[at].instructions) for at in loop.blocks)
                text = f"a loop of {size} instructions without a counter or clock that ends it"
                yield FirmwareFinding(RULES["GF401"], text, analysis.program.name(loop.head), loop.head)


def _stores(analysis: Analysis) -> Iterator[FirmwareFinding]:
    target, finder = analysis.target, analysis.store_finder
    if target.profile is None or "gpu" not in target.regions:
        return
    gpu = target.regions["gpu"].base
    driver = expected.driver_registers(target.profile, _options(analysis))
    others = expected.other_devices(target.platform)
    yield from Leaks(analysis).findings() if not analysis.is_pta else ()
    for store in analysis.stores:
        yield from _normal_world(analysis, store)
        if store.kind == COMPUTED and store.region == "gpu":
            missing = finder.guard(store).missing
            if missing:
                yield _store(analysis, store, "GF502", f"without {'; without '.join(missing)}")
        elif store.kind == FIXED and store.region == "gpu":
            wrong = [address - gpu for address in store.addresses if address - gpu not in driver]
            checked = finder.guard(store, of_action=True) if wrong and len(store.addresses) > 1 else None
            if wrong and not (checked and checked.lookup is not None and checked.found is not None):
                names = ", ".join(target.profile.describe(offset) for offset in wrong[:SHOWN])
                yield _store(analysis, store, "GF501", f"to {names}, which the driver does not write")
        elif store.kind == FIXED and not store.region and not analysis.is_pta:
            wrong = [address for address in store.addresses if address not in others]
            if wrong:
                words = ", ".join(f"{address:#x}" for address in wrong[:SHOWN])
                yield _store(analysis, store, "GF503", f"to {words}: neither memory nor a device of this board")


def _normal_world(analysis: Analysis, store: Store) -> Iterator[FirmwareFinding]:
    """Stores that the normal world aims."""
    finder = analysis.store_finder
    if store.kind == POINTER or (store.kind == COMPUTED and store.region not in ("gpu", "mailbox")):
        kinds = {kind for kind, _ in finder.address(store).roots}
        if "mailbox" in kinds and kinds <= {"mailbox", "const", "loop"}:
            yield _store(analysis, store, "GF504", "to an address that was read from the mailbox")


def _key(analysis: Analysis) -> Iterator[FirmwareFinding]:
    """The last of the verifications has the key by its address: the others take a pointer from the policy. Of a
    trust policy there are two copies, and no other policy: each of the two judgements has its own."""
    device = analysis.target.device
    if device and isinstance(device.key, Policy):
        copies, others = constants.policies(analysis.image, device.key.raw)
        if copies != TRUST_COPIES or others:
            text = f"expected {TRUST_COPIES} copies of the trust policy and no other, found {copies} and {others}"
            yield FirmwareFinding(RULES["GF608"], text, "gr_trust")
        return
    for function in analysis.program.running if device and not analysis.is_pta else ():
        if function.name.partition(".")[0] != VERIFY or not analysis.image.symbols:
            continue
        assert device is not None
        keys = passed(analysis.program, analysis.values, function, VERIFY_KEY)
        right = {at for at in keys if analysis.image.read(at, len(device.key.raw)) == device.key.raw}
        known = {at for at in keys if analysis.image.read(at, len(KNOWN_ANSWER_KEY)) == KNOWN_ANSWER_KEY}
        wrong = sorted(keys - right - known)
        if not right or wrong:
            said = ", ".join(f"{at:#x}" for at in wrong) or "a place that the code does not show"
            text = f"expected at least one call with the key in the code, and none with another; found {said}"
            yield FirmwareFinding(RULES["GF608"], text, function.name, function.start)


def _trusted(anchor: Anchor) -> set[bytes]:
    """The keys that the device has, and the one that nobody can sign with."""
    keys = [key.raw[:ES256_BYTES] for key in anchor.keys] if isinstance(anchor, Policy) else [anchor.raw]
    return {*keys, KNOWN_ANSWER_KEY}


def _store(analysis: Analysis, store: Store, rule: str, text: str) -> FirmwareFinding:
    name = analysis.program.name
    way = "".join(f", called at {name(at)}" for at in store.way)
    return FirmwareFinding(RULES[rule], f"a store {text}{way}", name(store.at), store.at)


def _constants(analysis: Analysis, key: Anchor | None) -> Iterator[FirmwareFinding]:
    target, image = analysis.target, analysis.image
    for text in target.problems:
        yield FirmwareFinding(RULES["GF601"], text)
    device = target.device
    if key and device and device.key.kid != key.kid:
        text = f"expected {key.kid.hex()}, found {device.key.kid.hex()}"
        yield FirmwareFinding(RULES["GF602"], text, "gr_device")
    for place in constants.points(image):
        if device is None or place.data not in _trusted(device.key):
            yield FirmwareFinding(RULES["GF603"], place.what, _near(analysis, place.address), place.address)
    for place in constants.key_files(image) if not analysis.is_pta else []:
        yield FirmwareFinding(RULES["GF603"], place.what, _near(analysis, place.address), place.address)
    for table in analysis.tables:
        if table.differs:
            yield FirmwareFinding(RULES["GF604"], table.differs, f"table {table.name}", table.address)
    if device and target.profile is None:
        text = f"{device.profile_id:#018x} is no profile of this version"
        yield FirmwareFinding(RULES["GF605"], text, "gr_device")
    elif device and device.profile_id not in analysis.numbers and analysis.program.running:
        text = f"the constant says {device.profile_id:#018x}, and the code does not compare with that"
        yield FirmwareFinding(RULES["GF605"], text)
    if image.board and target.board:
        for name, region in _BOARD.items():
            ranges = {**target.board.devices, **target.board.memory}
            right = ranges[region].base if region in ranges else 0
            if image.board[name] != right:
                text = f"{name}: expected {right:#x}, found {image.board[name]:#x}"
                yield FirmwareFinding(RULES["GF606"], text, ".gramophone.board")


def _options(analysis: Analysis) -> set[str]:
    """Macros of options that the firmware has, by the functions in it."""
    present = {function.name.partition(".")[0] for function in analysis.program.functions.values()}
    return {macro for macro, function in expected.OF_FUNCTIONS.items() if function in present}


def _steps(analysis: Analysis) -> Iterator[FirmwareFinding]:
    if not analysis.image.symbols or analysis.target.profile is None:
        return
    names = {start: function.name.partition(".")[0] for start, function in analysis.program.functions.items()}
    called = Counter(
        names.get(call.target, "")
        for function in analysis.program.running
        for call in function.calls
        if call.target is not None
    )
    present = set(names.values())
    device = analysis.target.device
    on = _options(analysis)
    if device is not None and isinstance(device.key, Policy):
        on.add(HAS_TRUST)
    steps = expected.steps(analysis.target.profile, analysis.target.board, on)
    for name, count in steps.items():
        if name in present and called[name] < count:  # one that is nowhere is a part of its callers
            text = f"the source calls it in {count} places, the code in {called[name]}"
            yield FirmwareFinding(RULES["GF701"], text, name)
        elif name == MMU_OFF and called[name] > count:
            text = f"the source calls it in {count} places, the code in {called[name]}"
            yield FirmwareFinding(RULES["GF607"], text, name)
    if any(name.startswith("gr_log_") for name in present):
        written: frozenset[int] = frozenset()
        for function in analysis.program.running:
            if names[function.start] == LOG_APPEND:
                written |= passed(analysis.program, analysis.values, function, LOG_APPEND_KIND)
        for kind in LogKind:
            if kind.value not in written:
                text = f"no call writes an entry of kind {kind.name}"
                yield FirmwareFinding(RULES["GF701"], text, LOG_APPEND)
