# SPDX-License-Identifier: BSD-2-Clause
"""The texts that the rules judge: pages, help of all commands, messages of all errors; each with its place."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterable, Iterator

import click
from markdown_it import MarkdownIt

from host_tools.cli import main
from host_tools.device import cli as device
from tests.plain_english import rules
from tests.support.places import CHECKOUT

# The pages that a newcomer meets first, then those for people who change or review Gramophone.
PAGES = (
    "docs/README.md",
    "docs/INSTALL.md",
    "docs/TUTORIAL.md",
    "docs/YOUR-MODEL.md",
    "docs/YOUR-PROGRAM.md",
    "docs/YOUR-PI.md",
    "docs/YOUR-BOARD.md",
    "docs/KEYS.md",
    "docs/COMMANDS.md",
    "docs/AUDITING.md",
    "docs/REPORT.md",
    "docs/LIMITS.md",
    "docs/DESIGN.md",
    "docs/THREATS.md",
)
SOURCES = ("host_tools", "signing", "tee_replayer", "trace_format", "baremetal")
_MARKDOWN = MarkdownIt("commonmark").enable("table")
Finding = tuple[str, str, str]  # place, rule, sentence


def page(name: str, text: str) -> Iterator[Finding]:
    """Findings in a page: its paragraphs, list entries, cells and titles, not its blocks of code."""
    kind = rules.README if name == "README.md" else rules.PAGE
    above, line = "", 0
    for token in _MARKDOWN.parse(text):
        line = token.map[0] + 1 if token.map else line
        if token.type == "inline":
            plain = "".join(
                "CODE" if child.type == "code_inline" else " " if child.type == "softbreak" else child.content
                for child in token.children or ()
                if child.type != "html_inline"
            )
            found = rules.title_findings(plain) if above == "heading_open" else rules.findings(kind, plain)
            for rule, sentence in found:
                yield f"{name}:{line}", rule, sentence
        above = token.type


def command_help(name: str, command: click.Command) -> Iterator[Finding]:
    """Findings in the help of a command, of its options, and of the commands below it."""
    summary, _, rest = (command.help or "").partition("\n\n")
    for rule, sentence in rules.summary_findings(rules.sentences(summary)[0] if summary else ""):
        yield f"{name} --help", rule, sentence
    # \b keeps click from wrapping: tables and lists, which have no sentences.
    for paragraph in (summary, *(text for text in rest.split("\n\n") if not text.lstrip().startswith("\b"))):
        for rule, sentence in rules.findings(rules.COMMAND, _without_code(paragraph)):
            yield f"{name} --help", rule, sentence
    for rule, sentence in rules.unqualified(_without_code(command.help or "")):
        yield f"{name} --help", rule, sentence
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden:
            text = _without_code(param.help or "")
            for rule, sentence in (*rules.findings(rules.OPTION, text), *rules.unqualified(text)):
                yield f"{name} {param.opts[-1]}", rule, sentence
    if isinstance(command, click.Group):
        context = click.Context(command)
        for child in command.list_commands(context):
            below = command.get_command(context, child)
            if below is not None and not below.hidden:
                yield from command_help(f"{name} {child}", below)


def device_help() -> Iterator[Finding]:
    """Findings in the help of `gramophone-tee`."""
    parser = device.parser()
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for name, command in commands.choices.items():
        for rule, sentence in rules.summary_findings(command.description or ""):
            yield f"gramophone-tee {name} --help", rule, sentence
        for action in command._actions:
            for rule, sentence in rules.findings(rules.OPTION, _without_code(action.help or "")):
                yield f"gramophone-tee {name} {''.join(action.option_strings[-1:])}", rule, sentence


def _without_code(text: str) -> str:
    """Help with what a user would type as CODE."""
    return re.sub(r"`[^`]*`|'gramophone[^']*'", "CODE", text)


def errors() -> Iterator[Finding]:
    """Findings in the messages of errors that a user can cause: `GramophoneError` and its kinds."""
    trees = {
        str(path.relative_to(CHECKOUT)): ast.parse(path.read_text(encoding="utf-8"))
        for folder in SOURCES
        for path in sorted((CHECKOUT / folder).rglob("*.py"))
    }
    kinds = error_kinds(trees.values())
    for name, tree in trees.items():
        for line, message in messages(tree, kinds):
            text = _without_code(message)
            for rule, sentence in (*rules.findings(rules.ERROR, text), *rules.unqualified(text)):
                yield f"{name}:{line}", rule, sentence


def error_kinds(trees: Iterable[ast.Module]) -> set[str]:
    """Names of `GramophoneError` and of all classes that are made from it."""
    bases: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases.setdefault(node.name, set()).update(_name(base) for base in node.bases)
    kinds = {"GramophoneError"}
    while more := {name for name, above in bases.items() if above & kinds} - kinds:
        kinds |= more
    return kinds


def messages(tree: ast.Module, kinds: set[str]) -> Iterator[tuple[int, str]]:
    """Line and text of each message that a module gives to one of these errors."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in kinds:
            values = [
                *node.args,
                *(word.value for word in node.keywords if word.arg in ("what", "expected", "found")),
            ]
            for value in values:
                for part in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
                    if text := _text(part):
                        yield part.lineno, text


def _name(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _text(node: ast.expr) -> str:
    """A string, with X for each value in it; "" for other expressions."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (_text(node.left) or "X") + (_text(node.right) or "X")
    return ""


def everything() -> Iterator[Finding]:
    """All findings."""
    for name in ("README.md", *PAGES):
        yield from page(name, (CHECKOUT / name).read_text(encoding="utf-8"))
    yield from command_help("gramophone", main)
    yield from device_help()
    yield from errors()
