# SPDX-License-Identifier: BSD-2-Clause
"""The rules that `gramophone audit-firmware` judges by: one table, from which docs/FIRMWARE-RULES.md comes."""

from __future__ import annotations

from dataclasses import dataclass

from host_tools.audit.rules import Severity


@dataclass(frozen=True)
class FirmwareRule:
    """A rule.

    Attributes:
        id: stable; nothing else is ever given the same.
        name: the rule in a few words.
        severity: of its findings.
        reason: why it matters.
        needs: what it cannot be judged without; "" for nothing but the image.
    """

    id: str
    name: str
    severity: Severity
    reason: str
    needs: str = ""

    @property
    def description(self) -> str:
        """Why it matters, and what it needs."""
        return f"{self.reason}. Needs: {self.needs or 'the image'}."


@dataclass(frozen=True)
class FirmwareFinding:
    """Something in a firmware that breaks a rule.

    Attributes:
        rule: which.
        text: what was found, and what was expected.
        where: function and offset, section or segment; "" for the image as a whole.
        address: of the instruction or byte; None where no single place is at fault.
    """

    rule: FirmwareRule
    text: str
    where: str = ""
    address: int | None = None

    @property
    def place(self) -> str:
        """Where it is, in words."""
        if self.address is None:
            return self.where or "image"
        return f"{self.where} ({self.address:#x})" if self.where else f"{self.address:#x}"


_E, _W, _N = Severity
SYMBOLS, KEY, REBUILD, DEVICE = "symbols", "`--key`", "`--rebuild`", "a device file"
RULES = {
    rule.id: rule
    for rule in (
        FirmwareRule(
            "GF101",
            "nothing is writable and executable",
            _E,
            "what can write there can change the program; of OP-TEE's core, which maps itself, sections count",
            "ELF headers",
        ),
        FirmwareRule("GF102", "execution stays in code", _E, "code that runs into constants executes anything"),
        FirmwareRule(
            "GF103",
            "no unknown code",
            _E,
            "bytes between functions that nothing reaches or refers to can be code that an attacker jumps to",
        ),
        FirmwareRule(
            "GF104",
            "every function can run",
            _W,
            "it was left by mistake, or waits for a jump",
            SYMBOLS,
        ),
        FirmwareRule(
            "GF201",
            "expected system instructions only",
            _E,
            "system registers, monitor calls, cache and TLB maintenance change what all checks rely on",
        ),
        FirmwareRule("GF301", "no recursion", _E, "recursion has no bound on its stack"),
        FirmwareRule(
            "GF302", "the stack has room for the worst case", _E, "a stack that grows over its end overwrites data"
        ),
        FirmwareRule("GF303", "the stack pointer moves by constants", _E, "otherwise its worst case is not known"),
        FirmwareRule(
            "GF304",
            "no jump through a register",
            _E,
            "but for the last call of a function, it could lead anywhere",
        ),
        FirmwareRule(
            "GF305",
            "no recursion if all indirect calls led everywhere",
            _W,
            "where an indirect call leads is not known: any function whose address is taken",
        ),
        FirmwareRule(
            "GF306",
            "control flow stays in functions",
            _E,
            "what leads to data, the stack or the mailbox runs what others write",
        ),
        FirmwareRule("GF401", "every loop has a visible bound", _E, "one that never ends holds the secure world"),
        FirmwareRule(
            "GF501",
            "fixed registers are the driver's",
            _E,
            "a register that neither the driver nor a checked action writes may reach power, clocks, or memory",
        ),
        FirmwareRule(
            "GF502",
            "the allow list guards every other store to the GPU",
            _E,
            "a store whose address is computed can reach every register of the window",
        ),
        FirmwareRule(
            "GF503", "stores go where the board's description says", _E, "other addresses are other devices"
        ),
        FirmwareRule(
            "GF504",
            "no store goes where the mailbox says",
            _E,
            "whoever writes the mailbox could write all that the secure world can",
        ),
        FirmwareRule(
            "GF505",
            "the carve-out is not copied to the mailbox",
            _E,
            "only slots leave it, through the page table: another copy gives away weights and inputs",
        ),
        FirmwareRule(
            "GF601",
            "it says what it was made for",
            _E,
            "without it nobody knows whose traces it accepts",
        ),
        FirmwareRule("GF602", "the key is the one expected", _E, "another key accepts another's traces", KEY),
        FirmwareRule(
            "GF603",
            "no other key",
            _E,
            "a second key may be accepted somewhere",
        ),
        FirmwareRule(
            "GF604",
            "the allow list is the profile's",
            _E,
            "one more row or bit is one more thing that a trace may do",
        ),
        FirmwareRule(
            "GF605",
            "the code was made for the profile",
            _E,
            "traces are held to the profile's hash in the code",
        ),
        FirmwareRule(
            "GF606",
            "addresses are the board's",
            _E,
            "a firmware that takes other memory for secure is not for this board",
            "ELF headers",
        ),
        FirmwareRule(
            "GF607",
            "memory is mapped as the board's description says",
            _E,
            "other attributes let what goes wrong change code, execute data, or leave caches and memory different",
        ),
        FirmwareRule(
            "GF608",
            "signatures are verified with the key in the code",
            _E,
            "a key from elsewhere makes anybody the owner",
            SYMBOLS,
        ),
        FirmwareRule(
            "GF609",
            "it is what the device file asks for",
            _E,
            "a device with another key, version or feature than agreed does what nobody agreed to",
            DEVICE,
        ),
        FirmwareRule(
            "GF610",
            "its features are a profile",
            _W,
            "hostile traces are tried on the profiles: nobody has tested other combinations",
            DEVICE,
        ),
        FirmwareRule(
            "GF701",
            "every step of the source is there",
            _E,
            "a check, a wipe or a second look that is in the source and not in the code was taken out",
            SYMBOLS,
        ),
        FirmwareRule(
            "GF801",
            "the build can be repeated",
            _E,
            "the same sources and compiler give the same bytes; others are not what the sources say",
            REBUILD,
        ),
    )
}


@dataclass(frozen=True)
class Unknown:
    """A kind of back door that no rule finds, only `--rebuild`.

    Attributes:
        words: what stays unknown without it; a report's first line.
        bare: only of an image without symbols.
    """

    words: str
    bare: bool = False


# Every kind has a back door in tests/support/back_doors.py that was planted and not found.
UNKNOWN = {
    "answers": Unknown("that the answers of checks are used, and that they compare as the source does"),
    "pointers": Unknown("where pointers that lie in memory lead"),
    "hops": Unknown("that nothing of the carve-out reaches the mailbox through other memory than the stack"),
    "lookups": Unknown("that what leaves as a slot lies where the page table says"),
    "extents": Unknown("that wipes and checks take in all that the source has them take in"),
    "steps": Unknown("that what is executed is no constant, and that steps are left out nowhere", bare=True),
}


def document() -> str:
    """Text of docs/FIRMWARE-RULES.md."""
    rows = [
        f"| {rule.id} | {rule.name} | {rule.severity.value} | {rule.reason} | {rule.needs} |"
        for rule in RULES.values()
    ]
    unknown = [
        f"- {kind.words}{' (of an image without symbols)' if kind.bare else ''}" for kind in UNKNOWN.values()
    ]
    return "\n".join([_HEAD, *rows, "", _UNKNOWN, *unknown, ""])


_HEAD = """# Rules of `gramophone audit-firmware`

For everybody who has a finding in front of them. [AUDIT-FIRMWARE.md](AUDIT-FIRMWARE.md) explains what the
analyses can show, and what not. Made by `python -m host_tools.audit_firmware.document` from
`host_tools/audit_firmware/rules.py`.

Exit status 1 says that there is an error, with `--strict` also a warning. `--allow FILE` names findings that are
accepted, each with a reason. "Needs" is what a rule cannot be judged without; the output says which were not
judged.

| id | rule | severity | reason | needs |
|---|---|---|---|---|"""

_UNKNOWN = """## What only `--rebuild` finds

No rule finds these kinds of back doors. Without `--rebuild` the first line of the output names them as NOT KNOWN:
"""
