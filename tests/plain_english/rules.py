# SPDX-License-Identifier: BSD-2-Clause
"""The patterns of English that are hard to read, and where each counts.

A text is split into sentences, in which code stands as `CODE`. A rule is a pattern of one sentence. Length, option
help and summaries have functions, because they look at the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

PAGE, README, OPTION, COMMAND, ERROR = "page", "README", "option", "command", "error"
# Words in a sentence. A page's sentences may be longer, for enumerations and links.
MOST_WORDS = {PAGE: 30, README: 25, OPTION: 25, COMMAND: 25, ERROR: 25}
MOST_SUMMARY = 60  # characters of a command's first line

_START = r"(?:^|(?<=[:;] ))"  # of a clause
_BE = r"(?:is|are|was|were|has|have|had|can|may|must|do|does|will)"


@dataclass(frozen=True)
class Rule:
    """A pattern, and what to write instead."""

    name: str
    pattern: re.Pattern[str]
    instead: str


def _rule(name: str, pattern: str, instead: str) -> Rule:
    return Rule(name, re.compile(pattern), instead)


RULES = (
    _rule("fronted-of", rf"{_START}Of (?!course)", "X's Y, or Y of X"),
    _rule("too-behind", r", too(?=[.,;:)]|$)", "'also' before the verb"),
    _rule("quantity", r"(?i)\b(?:anew|(?:by|each) so|so (?:many|much|few)|as much as)\b", "a number, 'again'"),
    _rule("per", r"\b(?:one|an?|\d[\d,.]*) \w+ an? (?:boot|job|line|replay|run|second|token)\b", "per"),
    _rule(
        "who-alone",
        rf"{_START}(?:Who|Whoever|Whose)\b(?!.*\?$)|(?i:\b(?:for|to|by|of|than) who(?:ever)?\b)|\bwhoever\b",
        "a noun: operators who",
    ),
    _rule(
        "clause-subject",
        rf"{_START}(?:What|Whatever|Whether|That (?:it|there|they|no|nothing|nobody|each|all))\b(?!.*\?$)"
        r"|(?:\b(?:and|but|so)|[;,]) what (?:\w+ ){1,4}(?:is|are|was|were|has|have)\b|\bwhat nobody\b",
        "an actor as the subject",
    ),
    _rule(
        "pronoun-subject",
        rf"{_START}(?:(?:Those|Others?|The others?|The ones?|That of) (?:{_BE}|who|that|of|in|for|with|which)"
        rf"|(?:Ones?|Nothing else) (?:{_BE}|who|that|which))\b",
        "the thing's name",
    ),
    _rule("inverted", rf"{_START}(?:So|Nor|Such) (?:is|are|does|do|has|have|can)\b", "subject, verb"),
    _rule("modal", r"\b(?:is|are|was|were) to be\b", "must be, will be"),
    _rule("chain", r"\b(?:which|whose|whom)\b.*\b(?:which|whose|whom)\b", "two sentences"),
    _rule(
        "unnamed", r"\bof the last (?:two|three)\b|\bthe (?:former|latter)\b|\bof which no\b", "the thing's name"
    ),
    _rule("exclusive", r"\bexcludes? (?:each other|--)", "cannot be combined with, mutually exclusive"),
    _rule("requires", r"\b(?:belongs? together|goes? together|must be given)\b", "requires, required"),
    _rule("resume", r"\bgo(?:es|ne|ing)? on\b", "resume, continue"),
    _rule(
        "rebuild",
        r"(?i)\b(?:mak(?:e|es|ing)|made|build|built|generated?|fetched) (?:it |them )?again\b",
        "rebuild",
    ),
    _rule("time-out", r"\b(?:ends?|ended|stops?|stopped) after (?:so\b|\w+ (?:seconds|minutes)\b)", "times out"),
    _rule("deadline", r"\blooks? at the clock\b|\bbe in time\b", "checks the deadline, meets the deadline"),
    _rule("unavailable", r"\b(?:is|are) not there\b", "missing, unavailable"),
    _rule("takes-out", r"\btakes? nothing out\b|\bput(?:s)? back\b", "cannot be combined with; restores, delays"),
    _rule(
        "idiom",
        r"\b(?:for ever|as ever|what goes with|presses that|mak\w+ a GPU do|held to)\b",
        "the field's word",
    ),
    _rule("besides", r"\bbesides(?=[.,;:)]|$)", "also"),
)
# Words that have several meanings, and the words before them that say which is meant. A text says it once.
_QUALIFIED = {
    "policy": (r"(?i)\bpolic(?:y|ies)\b", r"(?i)\b(?:trust|register|client|scheduling|security) polic"),
    "share": (r"\b(?:an?|its|no|one|two) shares?\b", r"\b(?:core|signature|CPU) shares?\b"),
    "checkpoint": (r"\b(?:an?|the|no|each|next|at) checkpoints?\b", r"\b(?:replay|log) checkpoints?\b"),
    "report": (r"\b(?:board|device|guest|firmware)'s report\b", r"\bstatus report\b"),
}
TITLE = _rule("title", r"^(?:What|Who|Whose|Whether)\b.*[^?]$", "a noun phrase")

# A second sentence of an option's help may say this and no more.
_SECOND = re.compile(r"(?:Requires|Repeatable|Default|Deprecated|Give once|Mutually exclusive|[A-Z]{2,}\b)")
_NO_ORDER = re.compile(r"(?:How|Where|When|Why|Which|If|As|With|Without|In|On|The|An?|It|Its|This)\b")
_WORD = re.compile(r"[\w'’/-]+")


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph."""
    plain = re.sub(r"\b(e\.g|i\.e|etc|cf|vs)\.", r"\1", " ".join(text.split()))
    return [part for part in re.split(r"(?<=[\w)`\"'][.?!])\s+", plain) if part]


def findings(kind: str, text: str) -> Iterator[tuple[str, str]]:
    """Rule and sentence of each finding in a text of a kind."""
    parts = sentences(text)
    for part in parts:
        for rule in RULES:
            if rule.pattern.search(part):
                yield f"{rule.name} ({rule.instead})", part
        pieces = re.split(r"[:;] ", part) if kind == ERROR else [part]
        for piece in pieces:
            words = len(_WORD.findall(piece))
            if words > MOST_WORDS[kind]:
                yield f"long ({words} words, at most {MOST_WORDS[kind]})", piece
    if kind == OPTION and parts:
        if _NO_ORDER.match(parts[0]):
            yield "option (an order, or a noun)", parts[0]
        for part in parts[1:]:
            if not _SECOND.match(part):
                yield "option (one sentence; then 'Requires', 'Default', 'Repeatable')", part


def unqualified(text: str) -> Iterator[tuple[str, str]]:
    """Words of several meanings that a text uses without saying which is meant."""
    plain = re.sub(r"(trust|client)[-_]policy", r"\1 policy", text)
    for word, (alone, qualified) in _QUALIFIED.items():
        if re.search(alone, plain) and not re.search(qualified, plain):
            yield f"qualified ({word} of what kind?)", plain


def title_findings(title: str) -> Iterator[tuple[str, str]]:
    """The finding in a title, if there is one."""
    if TITLE.pattern.search(title):
        yield f"{TITLE.name} ({TITLE.instead})", title


def summary_findings(summary: str) -> Iterator[tuple[str, str]]:
    """The finding in the first line of a command's help, if there is one."""
    if len(summary) > MOST_SUMMARY:
        yield f"summary ({len(summary)} characters, at most {MOST_SUMMARY})", summary
