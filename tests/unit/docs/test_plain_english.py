# SPDX-License-Identifier: BSD-2-Clause
"""`python -m tests.plain_english` finds each of its patterns, and nothing in what is plain."""

from __future__ import annotations

import ast

import click
import pytest

from tests.plain_english import rules, texts
from tests.support.places import CHECKOUT

# What was in the tree, the rule that finds it, and what stands there now.
BEFORE_AND_AFTER = [
    (
        rules.README,
        "records what a full GPU software stack makes a GPU do, presses that into",
        "idiom",
        "records the commands that an unmodified GPU stack sends for one inference and packs them into",
    ),
    (rules.COMMAND, "a replay must be given: data", "requires", "inputs required at replay: data"),
    (
        rules.OPTION,
        "Waits for jobs end after so many times what these are estimated to take at worst",
        "time-out",
        "Time out a job after N times its worst-case estimate.",
    ),
    (
        rules.OPTION,
        "What is to be small: the device's work at its start, or the trace",
        "clause-subject",
        "Optimise start-up time (start) or file size (size).",
    ),
    (rules.OPTION, "How sections of traces may be stored, too", "too-behind", "Extra section codec to support."),
    (
        rules.OPTION,
        "Public key (PEM), of the last three, and of bare tokens.",
        "unnamed",
        "Public key for --signer-command, --signature and --to-be-signed, or for a token without one.",
    ),
    (
        rules.OPTION,
        "Of a Mali: run two networks at the same time, each on these cores, as 0x0f; once for each.",
        "fronted-of",
        "Run two networks at once on a Mali. MASK selects a network's cores (0x0f). Give once per network.",
    ),
    (
        rules.COMMAND,
        "What the CPU does between jobs is not in it, nor is going from one network to another.",
        "clause-subject",
        "CPU work between jobs and network switches are not modelled.",
    ),
    (
        rules.PAGE,
        "Who takes longer than predicted is put back, by as much time as it had",
        "who-alone",
        "A request that overruns gets a new deadline, later by its original allowance.",
    ),
    (
        rules.PAGE,
        "so many operations a byte from DRAM a kernel must do before arithmetic is what binds it",
        "quantity",
        "operations per DRAM byte above which a kernel is compute-bound",
    ),
    (
        rules.ERROR,
        "a device's secret of which no key for encrypted traces follows",
        "unnamed",
        "cannot derive a decryption key from this device secret",
    ),
    (
        rules.ERROR,
        "--check writes nothing, and takes nothing out",
        "takes-out",
        "--check cannot be combined with --output or --take",
    ),
    (
        rules.PAGE,
        "What a job still writes is no operand, and what faulted has left none.",
        "clause-subject",
        "Wait for the job: its output may be an operand.",
    ),
    (
        rules.PAGE,
        "core.operate: looks at the clock as often as other operators",
        "deadline",
        "core/operate: check the deadline once per row",
    ),
    (rules.PAGE, "Those are kept.", "pronoun-subject", "The results are kept."),
    (rules.PAGE, "The ones that fail are named.", "pronoun-subject", "Failed tasks are named."),
    (rules.PAGE, "So is a key of small order.", "inverted", "A key of small order is also refused."),
    (rules.PAGE, "The root is to be signed next.", "modal", "Sign the root next."),
    (
        rules.PAGE,
        "It polls a GIC, which the loader has set up, whose lines are listed.",
        "chain",
        "It polls a GIC that the loader has set up. Its lines are listed.",
    ),
    (
        rules.ERROR,
        "--tail and --report exclude each other",
        "exclusive",
        "--tail cannot be combined with --report",
    ),
    (rules.ERROR, "--until and --dump belong together", "requires", "--until requires --dump"),
    (rules.ERROR, "the log does not go on from the old one", "resume", "the log does not continue the old one"),
    (rules.PAGE, "It is made again when a source changed.", "rebuild", "It is rebuilt when a source changed."),
    (
        rules.PAGE,
        "The browser is ended after five minutes.",
        "time-out",
        "The browser times out after five minutes.",
    ),
    (rules.ERROR, "the firmware asks for a call, which is not there", "unavailable", "unavailable call"),
    (rules.PAGE, "It takes --via besides.", "besides", "It also takes --via."),
    (rules.PAGE, "It replays once, one run a token.", "per", "It replays once per token."),
    (rules.PAGE, "It keeps what nobody uses.", "clause-subject", "It keeps unused files."),
    (
        rules.PAGE,
        "A result is the word of whoever sends it.",
        "who-alone",
        "Trust a result as you trust its sender.",
    ),
    (rules.PAGE, "Sign it anew.", "quantity", "Sign it again."),
    (
        rules.OPTION,
        "Stop after this job. Jobs have the numbers of the report.",
        "option",
        "Stop after job N. Requires --dump.",
    ),
    (rules.OPTION, "If it is not, the exit status is 1.", "option", "Expected output; otherwise exit 1."),
    (rules.README, "word " * 26 + "end.", "long", "word " * 24 + "end."),
    (rules.PAGE, "word " * 31 + "end.", "long", "word " * 29 + "end."),
    (rules.ERROR, "x: " + "word " * 26, "long", "x: " + "word " * 25 + ": " + "word " * 25),
]


def names(kind: str, text: str) -> set[str]:
    """Names of the rules that find something."""
    return {rule.partition(" (")[0] for rule, _ in rules.findings(kind, text)}


@pytest.mark.parametrize(("kind", "before", "rule", "after"), BEFORE_AND_AFTER)
def test_what_was_there_is_found_and_what_is_there_is_not(kind: str, before: str, rule: str, after: str) -> None:
    assert rule in names(kind, before)
    assert names(kind, after) == set()


def test_every_rule_has_an_example() -> None:
    assert {rule.name for rule in rules.RULES} <= {rule for _, _, rule, _ in BEFORE_AND_AFTER}


@pytest.mark.parametrize(
    "text",
    [
        "One of the root keys is on a token.",
        "Who signed it?",
        "Those keys count. The other network starts later.",
        "Nothing has run on hardware yet.",
        "The page says who signed the trace and what it needs.",
    ],
)
def test_plain_sentences_are_left_alone(text: str) -> None:
    assert names(rules.PAGE, text) == set()


def test_words_of_several_meanings_are_qualified() -> None:
    assert list(rules.unqualified("the policy does not allow it"))
    assert not list(rules.unqualified("the register policy does not allow it; the policy is the profile's"))
    assert list(rules.unqualified("--share: net has two shares"))
    assert not list(rules.unqualified("--share: net has two core shares"))
    assert list(rules.unqualified("no checkpoint lies between two jobs"))
    assert not list(rules.unqualified("no replay checkpoint lies between two jobs; the checkpoint is a Job"))
    assert list(rules.unqualified("the board's report has no driver version"))


def test_titles_and_summaries() -> None:
    assert list(rules.title_findings("What a judge cannot run is not compiled"))
    assert not list(rules.title_findings("Regret on fewer cores"))
    assert list(rules.summary_findings("x" * 61))
    assert not list(rules.summary_findings("x" * 60))


def test_a_page_is_judged_without_its_code() -> None:
    """Paragraphs, list entries, cells and titles, each with its line."""
    text = "# What is it\n\nSee `so many`.\n\n- Sign it\n  anew\n\n| a |\n|---|\n| this, too |\n\n"
    text += "```\nsign it anew\n```\n"
    assert [(place, rule.partition(" ")[0]) for place, rule, _ in texts.page("x.md", text)] == [
        ("x.md:1", "title"),
        ("x.md:5", "quantity"),
        ("x.md:10", "too-behind"),
    ]
    assert all((CHECKOUT / name).is_file() for name in texts.PAGES)
    assert len(texts.PAGES) == 14


def test_help_is_judged_with_its_options() -> None:
    @click.group(help="Do things.\n\nOf a Mali: do others.\n\n\b\nso many: a list")
    def group() -> None:
        """Replaced above."""

    @group.command(help="Do one more thing, which takes a line that is too long for a terminal.")
    @click.option("--old", hidden=True, help="What is old.")
    @click.option("--new", help="What is new.")
    def child() -> None:
        """Replaced above."""

    found = [(place, rule.partition(" ")[0]) for place, rule, _ in texts.command_help("tool", group)]
    assert found == [
        ("tool --help", "fronted-of"),
        ("tool child --help", "summary"),
        ("tool child --new", "clause-subject"),
    ]


def test_messages_are_those_of_all_kinds_of_errors() -> None:
    source = """
class FileError(GramophoneError): pass
class DeepError(errors.FileError): pass
raise GramophoneError("one")
raise DeepError(f"{path}: two" + more, expected="three" if x else f"{y} four", offset=5)
raise ValueError("five")
"""
    tree = ast.parse(source)
    kinds = texts.error_kinds([tree])
    assert kinds == {"GramophoneError", "FileError", "DeepError"}
    assert [text for _, text in texts.messages(tree, kinds)] == ["one", "X: twoX", "three", "X four"]


def test_lint_runs_it() -> None:
    assert "\t$(BIN)/python -m tests.plain_english\n" in (CHECKOUT / "Makefile").read_text(encoding="utf-8")
