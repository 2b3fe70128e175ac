# SPDX-License-Identifier: BSD-2-Clause
"""The rules that a trace is judged by: one table, from which docs/RULES.md comes too.

What `gramophone lint` looks for is in lint.py, limits.py, checks.py and dynamic.py, next to each rule's id; by
which status a device says that a trace breaks one is in verdicts.py. An id is never given to another rule; GR402
is part of GR401.
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

    @property
    def description(self) -> str:
        """Why it matters, and what a device does."""
        return f"{self.reason}. Device: {self.device}."


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
ONLY_THERE = "; only a device sees it"
AT_LOADING, WHEN_IT_RUNS, NOTHING = "refused at loading", "stopped when it runs", "not seen"
RULES = {
    rule.id: rule
    for rule in (
        Rule(
            "GR001",
            "well-formed",
            _E,
            "a file that says two things, or reaches outside of itself, means something else to each reader",
            AT_LOADING,
        ),
        Rule(
            "GR002",
            "raw recording",
            _W,
            "a recording has all of the stack's detours and memory; `build` leaves what jobs need",
            NOTHING,
        ),
        Rule(
            "GR003",
            "signed with the device's key",
            _E,
            "what nobody answers for is anybody's; `verify` says who signed",
            AT_LOADING,
        ),
        Rule(
            "GR004",
            "made for this kind of GPU and its register policy",
            _E,
            "registers mean something else on another GPU, and another policy allows other ones",
            AT_LOADING,
        ),
        Rule(
            "GR005",
            "made for this device",
            _E,
            "a GPU of another revision, too little memory or a trace that was withdrawn (security version)",
            AT_LOADING + ONLY_THERE,
        ),
        Rule(
            "GR006",
            "security versions leave room",
            _N,
            "a rollback counter never falls: one replay of a version far above those in use, and a device refuses "
            "all that its owner has signed before, or, of the last version, all that he will sign",
            "a counter rises after a good replay only",
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
            "GR305",
            "no job starts while a region is locked",
            _E,
            "a job that reaches memory which is locked for a change of its mapping waits for the unlock",
            WHEN_IT_RUNS,
        ),
        Rule(
            "GR306",
            "jobs that run at the same time share no memory that one of them may write",
            _E,
            "what they compute depends on which is faster, and one network reaches the other's memory",
            NOTHING,
        ),
        Rule(
            "GR307",
            "command streams are straight",
            _E,
            "a device judges each instruction of a stream before the GPU's firmware gets it",
            WHEN_IT_RUNS,
        ),
        Rule(
            "GR401",
            "slots lie in mapped memory, away from code and image",
            _E,
            "a caller's data must not become code, nor change what was signed, nor the uniforms and descriptors "
            "that say which memory a job reads and writes",
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
            "GR405",
            "inputs go in, outputs come out",
            _E,
            "a copy in the other direction gives away what was another's, or changes a result",
            WHEN_IT_RUNS,
        ),
        Rule(
            "GR406",
            "inputs without a recorded value are given",
            _E,
            "a replay on whatever lies there computes nothing that was meant",
            WHEN_IT_RUNS + ONLY_THERE,
        ),
        Rule(
            "GR407",
            "outputs are copied once",
            _W,
            "who waits for a result may look at the first copy, which has what memory held before: each counts",
            NOTHING,
        ),
        Rule(
            "GR408",
            "weights are signed",
            _W,
            "whoever calls the replay gives the values of parameters, so what is computed is his choice: build "
            "--param puts them into the trace",
            NOTHING,
        ),
        Rule(
            "GR409",
            "callers write no uniform buffers",
            _W,
            "a uniform buffer holds data, or addresses; if addresses, the caller chooses which memory a job reads "
            "and writes",
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
            "GR504",
            "pauses are short",
            _N,
            "the GPU, and who waits for the replay, stand still for pauses of more than a second, in each attempt "
            "anew; drivers pause for microseconds",
            "the time budget ends a replay, retries included",
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
        Rule(
            "GR604",
            "the GPU answers as it was recorded",
            _E,
            "a GPU that hangs, or says other things than before, is not doing what was reviewed",
            "reset and tried again, then stopped" + ONLY_THERE,
        ),
        Rule(
            "GR605",
            "replays go on where the trace says so",
            _E,
            "a replay that goes on after others had the GPU, or after a fault, computes something else where "
            "registers or memory are not as they were",
            NOTHING,
        ),
        Rule(
            "GR606",
            "operators beside a job lie between its start and its wait",
            _E,
            "elsewhere an operator works when no job does, or on what the wrong job writes",
            AT_LOADING,
        ),
        Rule(
            "GR700",
            "data can be followed",
            _W,
            "where the virtual GPU computes nothing, it is not known what jobs do with data",
            NOTHING,
        ),
        Rule(
            "GR701",
            "outputs are of their own replay",
            _E,
            "who gets a result gets something of what another has put in before",
            NOTHING,
        ),
        Rule(
            "GR702",
            "nothing of an input stays",
            _E,
            "what a replay leaves of its inputs, and the next one does not write over, the next one can find",
            "wiped when the trace is unloaded, or cleared between users",
        ),
        Rule(
            "GR703",
            "outputs are results",
            _E,
            "memory that jobs use on the way, or that no job writes, says more than the result: of a network that "
            "is meant to hand it out, it can be accepted",
            NOTHING,
        ),
        Rule(
            "GR704",
            "inputs reach outputs",
            _W,
            "a result that does not depend on what was put in is not one, or not of this input",
            NOTHING,
        ),
        Rule(
            "GR705",
            "inputs decide no access",
            _W,
            "where an input decides an address or a branch, other inputs may reach other memory than was seen: of "
            "a table in which inputs are looked up it can be accepted",
            NOTHING,
        ),
        Rule(
            "GR706",
            "outputs depend on memory that was filled",
            _W,
            "what nobody has written is zero, or what an earlier job left there",
            "memory is zero when a trace is loaded",
        ),
        Rule(
            "GR707",
            "outputs depend on registers that were written",
            _E,
            "what a job finds in a register is from whoever used the GPU before, perhaps the normal world",
            NOTHING,
        ),
        Rule(
            "GR708",
            "the virtual GPU replays it",
            _E,
            "a replay that does not come to its end shows nothing of its data",
            WHEN_IT_RUNS,
        ),
        Rule(
            "GR709",
            "no state",
            _E,
            "who gets a result gets something of what all replays before were given: of a network that is trained "
            "it can be accepted. Where a trace allows retries it is no state, but GR701 and GR702",
            "wiped when the trace is unloaded, or cleared between users",
        ),
        Rule(
            "GR710",
            "replays show what can happen",
            _W,
            "code that ran with no value that was tried, or a replay that the virtual GPU could not finish, shows "
            "nothing of what other values do",
            NOTHING,
        ),
        Rule(
            "GR711",
            "operators beside a job share nothing with it that one of them writes",
            _E,
            "which of them is faster would decide what both compute, and of a line of a cache that both write "
            "one part is lost",
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

For everybody who has a finding in front of them. Made by
`python -m host_tools.audit.document` from `host_tools/audit/rules.py`.

`gramophone lint FILE` judges a trace, without a GPU: it follows the actions, keeps account of registers, mappings
and of which memory has been filled, and looks at every address that a job names. Exit status 1 says that there is
an error, with `--strict` also a warning. `--allow FILE` names findings that are accepted, each with a reason.
Rules from GR700 on are for `--dynamic`, and so is what GR401 says of a V3D's uniforms: the trace is replayed on
the virtual GPU with usual inputs, without those that may be left out, with values of all that their types can
hold, and with limits, NaNs and random bits; they are drawn by the trace's id. What each byte depends on is
followed through all jobs. Where data decides a condition both sides count, but of a branch only those that have
run: GR705 and GR710 say where other values may show more.

"Device" says what a replayer does about the same; `gramophone replay` names the rule beside the device's reason,
or the rules, where a device cannot tell which it was: to a GPU an address and a chain that lead nowhere are both a
fault. A file that breaks the format itself ([FORMAT.md](FORMAT.md)), for example by mapping the image writable, is
no trace: an error that ends with [GR001], exit status 2.

| id | rule | severity | reason | device |
|---|---|---|---|---|"""
