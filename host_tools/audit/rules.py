# SPDX-License-Identifier: BSD-2-Clause
"""The rules that `gramophone lint` judges a trace by: one table, from which docs/RULES.md comes too.

What each rule looks for is in registers.py, memory.py and jobs.py, next to it under its id.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Severity(enum.Enum):
    """How bad a finding is; the values are SARIF's levels (SARIF 2.1.0, 3.27.10)."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Rule:
    """A rule.

    Attributes:
        id: stable; nothing else is ever given the same.
        name: the rule in a few words.
        severity: of its findings.
        reason: why it matters.
        device: what a device does about it.
    """

    id: str
    name: str
    severity: Severity
    reason: str
    device: str


@dataclass(frozen=True)
class Finding:
    """Something in a trace that breaks a rule.

    Attributes:
        rule: which.
        text: what was found, and what was expected.
        action: index of the action; None: it is about the trace as a whole.
    """

    rule: Rule
    text: str
    action: int | None = None

    @property
    def place(self) -> str:
        """Where it is, in words."""
        return "trace" if self.action is None else f"action {self.action}"


DEVICE_RETRIES = 8  # GR_RETRY_LIMIT in tee_replayer/core/internal.h
_E, _W, _N = Severity
AT_LOADING, WHEN_IT_RUNS, NOTHING = "refused at loading", "stopped when it runs", "not seen"
RULES = {
    rule.id: rule
    for rule in (
        Rule(
            "GR002",
            "raw recording",
            _W,
            "a recording has all of the stack's detours and memory; `build` leaves what jobs need",
            NOTHING,
        ),
        Rule(
            "GR101",
            "allowed registers and bits",
            _E,
            "a register outside the profile's list may reach power, clocks, or memory beside the page tables",
            AT_LOADING,
        ),
        Rule(
            "GR102",
            "kept values",
            _E,
            "a value that is written before it was read is whatever an earlier run left",
            "writes zero, or what an earlier action kept",
        ),
        Rule(
            "GR103",
            "kept values change",
            _W,
            "only what differs from replay to replay has to be read and written; else it hides a value",
            "what may not be written is stopped when it runs",
        ),
        Rule(
            "GR202",
            "code lies in the image",
            _E,
            "what is executed must have been signed: no input, no result",
            "Mali: refused at loading; V3D: stopped when it runs",
        ),
        Rule(
            "GR203",
            "nothing is writable and executable",
            _E,
            "a job could write the code of the next one",
            "refused at loading on a GPU whose page tables can say so",
        ),
        Rule(
            "GR204",
            "no alias of code",
            _E,
            "a page that is code at one address and data at another can be changed as data",
            NOTHING,
        ),
        Rule(
            "GR205",
            "mappings stay while jobs run",
            _W,
            "an address that means other memory from job to job is hard to review",
            WHEN_IT_RUNS,
        ),
        Rule(
            "GR301",
            "addresses of jobs are mapped",
            _E,
            "a job that names memory which is not there faults",
            WHEN_IT_RUNS,
        ),
        Rule(
            "GR302",
            "memory of jobs is filled",
            _W,
            "a job that reads what nobody has written reads zeros, or nothing that was meant",
            NOTHING,
        ),
        Rule(
            "GR303",
            "job chains can be followed",
            _E,
            "what a chain names decides what it may touch; one that cannot be followed cannot be reviewed",
            WHEN_IT_RUNS,
        ),
        Rule(
            "GR304",
            "a page table before the first job",
            _E,
            "until the trace points the GPU at the replayer's table, its jobs find no memory",
            WHEN_IT_RUNS,
        ),
        Rule(
            "GR401",
            "slots are mapped",
            _E,
            "a copy to or from memory that is not mapped stops the replay",
            WHEN_IT_RUNS,
        ),
        Rule(
            "GR402",
            "slots keep away from code and image",
            _E,
            "a caller's data must not become code, nor change what was signed",
            WHEN_IT_RUNS,
        ),
        Rule(
            "GR403",
            "slots are copied",
            _W,
            "an input that is never copied in changes nothing; an output that is never copied out stays unknown",
            NOTHING,
        ),
        Rule(
            "GR404",
            "slots do not overlap",
            _W,
            "one caller's tensor would be another's; which one counts depends on the order of copies",
            NOTHING,
        ),
        Rule(
            "GR501",
            "waits fit into the time budget",
            _N,
            "the budget may end a replay before a wait has had its time",
            WHEN_IT_RUNS,
        ),
        Rule(
            "GR502",
            "pauses fit into the time budget",
            _E,
            "a replay that pauses longer than it may take never ends well",
            WHEN_IT_RUNS,
        ),
        Rule(
            "GR503",
            "retries",
            _N,
            "a device stops after so many attempts, whatever a trace allows",
            f"{DEVICE_RETRIES} retries at most",
        ),
        Rule(
            "GR601",
            "the end of each job is waited for",
            _E,
            "a job that still runs writes into what is copied out, or into the next job's memory",
            WHEN_IT_RUNS,
        ),
        Rule(
            "GR602",
            "interrupts are acknowledged",
            _W,
            "an interrupt that stays active is taken for the next job's",
            NOTHING,
        ),
        Rule(
            "GR603",
            "each job has its marker",
            _W,
            "logs, time budgets and reports count jobs by their markers",
            NOTHING,
        ),
    )
}


def document() -> str:
    """Text of docs/RULES.md."""
    rows = [
        f"| {rule.id} | {rule.name} | {rule.severity.value} | {rule.reason} | {rule.device} |"
        for rule in RULES.values()
    ]
    return "\n".join([_HEAD, *rows, ""])


_HEAD = """# Rules of `gramophone lint`

Made by `python -m host_tools.audit.document` from `host_tools/audit/rules.py`.

`gramophone lint FILE` judges a trace without a GPU: it follows the actions, keeps account of registers, mappings
and of which memory has been filled, and looks at every address that a job names. Exit status 1 says that there is
an error, with `--strict` also a warning. `--allow FILE` names findings that are accepted, each with a reason.
"Device" says what a replayer does about the same. A file that breaks the format itself
([FORMAT.md](FORMAT.md)), for example by mapping the image writable, is no trace: an error, exit status 2, as with
every command.

| id | rule | severity | reason | device |
|---|---|---|---|---|"""
