# SPDX-License-Identifier: BSD-2-Clause
"""What a proof depends on of a preprocessed harness: declarations that are reached from what is proved, and of
structures the members that code or annotations access. Profiles in which it is the same need one proof.

A member that nothing names only moves others. The memory models of WP and Eva have members, and no proof depends
on where these lie. Too much may be kept, never too little: a declaration stays if any kept text has a name that it
declares.
"""

from __future__ import annotations

import re

# Annotations lie between marks, so that the preprocessor replaces macros in them.
MARK = "@@"
_TOKEN = re.compile(
    rf'{MARK}.*?{MARK}|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[{{}}();]|[^@"\'{{}}();]+|@', re.DOTALL
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_LOGIC = re.compile(rf"{MARK}\s*(?:axiomatic|predicate|logic|ghost|lemma|axiom)\b")
_DECLARED_LOGIC = re.compile(r"\b(\w+)\s*(?:\{[\w, ]*\}\s*)?(?:\(|=|;|reads\b)|\baxiomatic (\w+)")
_ANNOTATIONS = re.compile(rf"(?:{MARK}.*?{MARK}\s*)+")
_TYPE = re.compile(r"(?:(?:static|const|typedef) )*(enum|struct|union) ?(\w*) ?\{(.*)\}(.*)")
_NO_BODY = re.compile(r"(?:(?:static|const|typedef) )*(?:enum|struct|union)\b[^()]*\{|[^{]*=")
_STRUCT = re.compile(r"(struct \w+ \{)(.*)(\};)")
_MEMBER = re.compile(r"\(\*(\w+)\)|(\w+)(?:\[[^\]]*\])*(?:,|$)")


def _items(text: str) -> list[str]:
    """What is declared, one after the other, with the annotations before it."""
    found, item, depth = [], "", 0
    for token in _TOKEN.findall(text):
        if not item.strip() and _LOGIC.match(token):
            found.append(" ".join(token.split()))
            continue
        item += token
        depth += (token in ("(", "{")) - (token in (")", "}"))
        ends = token == ";" or (token == "}" and not _NO_BODY.match(_ANNOTATIONS.sub("", " ".join(item.split()))))
        if not depth and ends:
            found.append(" ".join(item.split()))
            item = ""
    return [each for each in found if each != ";"]


def _declared(item: str) -> set[str]:
    """Names that an item declares, or more."""
    if _LOGIC.match(item):
        return {name for names in _DECLARED_LOGIC.findall(item) for name in names if name}
    code = _ANNOTATIONS.sub("", item)
    if made := _TYPE.match(code):
        values = made[3] if made[1] == "enum" else ""
        return {*_WORD.findall(f"{made[2]} {made[4]} {values}")}
    if code.startswith("typedef"):
        return {*_WORD.findall(code)}
    name = re.match(r"[^=;{]*?\b(?!__attribute__)(\w+) ?\(", code) or re.match(
        r"[^=;]*?\b(\w+)(?: ?\[[^;=]*\])* ?[=;]", code
    )
    return {name[1]} if name else {*_WORD.findall(code)}


def _members(item: str, accessed: set[str]) -> str:
    """A structure with the members that are accessed; anything else as it is."""
    made = _STRUCT.fullmatch(item)
    if made is None:
        return item
    kept = [
        member
        for member in made[2].split(";")
        if {name for names in _MEMBER.findall(member.strip()) for name in names} & accessed
    ]
    return f"{made[1]}{';'.join(kept)}{made[3]}"


def needed(text: str, roots: set[str]) -> str:
    """What is needed of a text.

    Args:
        text: preprocessed, with annotations between marks.
        roots: names of functions.
    """
    items = _items(text)
    declared = [_declared(item) for item in items]
    kept: set[int] = set()
    while True:
        code = " ".join(items[i] for i in kept if not _STRUCT.fullmatch(items[i]))
        accessed = set(re.findall(r"(?:\.|->) ?(\w+)", code))
        shown = [_members(items[i], accessed) for i in sorted(kept)]
        used = {*roots, *_WORD.findall("\n".join(shown))}
        more = {i for i, names in enumerate(declared) if names & used} - kept
        if not more:
            return "\n".join(shown)
        kept |= more
