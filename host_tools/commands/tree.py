# SPDX-License-Identifier: BSD-2-Clause
"""The tree of commands: where each command is, and the groups that lead to it, word by word.

A command's module is imported when the command is used, so that help and the version need neither NumPy nor
cryptography.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import click

from host_tools.commands.framework import AS_JSON, WithExample, note, usage_errors, warn
from host_tools.support.extra import Extra, LazyCommand, foreign, unusable
from host_tools.support.messages import escape_unprintable

# New objects before cycles are looked for: not as soon as Python does, since pages of a network are many objects.
_COLLECTED_AFTER = 100_000
MORE = "More"  # section of what extras add


@dataclass(frozen=True)
class Word:
    """A word that several commands begin with.

    Attributes:
        summary: its help.
        example: a command line.
        usual: the command that was meant, for one release, if the next word is none of its commands.
    """

    summary: str
    example: str
    usual: str = ""


@dataclass
class Tree:
    """All commands.

    Attributes:
        sections: title of help -> words of a command -> the command.
        words: words that commands begin with, by the words up to there.
        renamed: old name -> new words, for one release.
        late: adds what is not ours, as soon as somebody asks for a list or a word that we do not have.
    """

    sections: dict[str, dict[str, LazyCommand]]
    words: dict[str, Word]
    renamed: dict[str, str]
    late: Callable[[Tree], None] | None = None
    commands: dict[str, LazyCommand] = field(init=False)

    def __post_init__(self) -> None:
        self.commands = {path: command for rows in self.sections.values() for path, command in rows.items()}

    def add(self, section: str, path: str, command: LazyCommand) -> None:
        """Add a command."""
        self.sections[section][path] = self.commands[path] = command

    def is_free(self, path: str) -> bool:
        """Whether no command has these words, begins with them, or is among their beginnings."""
        return not any(
            f"{path} ".startswith(f"{taken} ") or taken.startswith(f"{path} ") for taken in self.commands
        )

    def below(self, path: str, *, whole: bool) -> dict[str, str]:
        """The words that may follow, and their summaries; whole: with those of others' packages."""
        if whole and self.late is not None:
            late, self.late = self.late, None
            late(self)
        start = f"{path} " if path else ""
        found: dict[str, str] = {}
        for command, lazy in self.commands.items():
            if command.startswith(start):
                word, _, more = command.removeprefix(start).partition(" ")
                found.setdefault(word, self.words[start + word].summary if more else lazy.summary)
        return found


def add_extra(tree: Tree, extra: Extra, package: str = "") -> None:
    """Add the commands of an extra.

    Args:
        tree: to add to.
        extra: that is added.
        package: that it is of, if that is not ours.

    Raises:
        ValueError: words that it adds are those of another command; nothing was added.
    """
    for path in (*extra.commands, *extra.renamed):
        if not tree.is_free(path):
            raise ValueError(f"there is a command {path!r} already")
    for path, command in extra.commands.items():
        words = path.split()
        for count in range(1, len(words)):
            said = extra.words.get(words[0], (extra.summary, extra.example))
            tree.words.setdefault(" ".join(words[:count]), Word(*said))
        tree.add(MORE, path, replace(command, package=package))
    tree.renamed.update(extra.renamed)


def add_foreign(tree: Tree) -> None:
    """Add the extras of other people's packages; what cannot be used of them is a warning."""
    for package, extra in foreign():
        try:
            add_extra(tree, extra, package)
        except ValueError as error:
            unusable(package, error)


def usable(group: click.Group, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """The commands of a group, with their words; others' that cannot be imported are a warning."""
    for name in group.list_commands(ctx):
        try:
            command = group.get_command(ctx, name)
        except click.UsageError as error:
            warn(error.message)
        else:
            assert command is not None
            yield name, command


class SubGroup(WithExample, click.Group):
    """Commands of one word in a module, such as those of `policy`."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(1000)) for name, command in usable(self, ctx)])


class WordGroup(SubGroup):
    """The commands that begin with a word."""

    def __init__(self, *args: Any, tree: Tree, path: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tree, self.path = tree, path

    def __contains__(self, word: object) -> bool:
        return any(word in self.tree.below(self.path, whole=whole) for whole in (False, True))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put in the word that was not needed in the last release."""
        word = self.tree.words.get(self.path)
        if word and word.usual and args and args[0] not in ctx.help_option_names and args[0] not in self:
            _note(ctx, self.path, f"{self.path} {word.usual}")
            args = [word.usual, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, which would look for what was meant among commands that are loaded."""
        name = args[0]
        if name not in self and not name.startswith("-"):
            raise click.exceptions.NoSuchCommand(name, possibilities=self.list_commands(ctx), ctx=ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The words that may follow."""
        return list(self.tree.below(self.path, whole=True))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, or make the group of a word; None if there is none of this name."""
        if cmd_name not in self:
            return None
        path = f"{self.path} {cmd_name}".strip()
        if path in self.tree.commands:
            return self.tree.commands[path].load()
        word = self.tree.words[path]
        return WordGroup(cmd_name, tree=self.tree, path=path, help=word.summary, example=word.example)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries, without an import."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.tree.below(self.path, whole=True).items()))


class GramophoneGroup(WordGroup):
    """The outermost group.

    Wrong options and arguments are one sentence and, with `--json`, also one object.
    """

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command line; what the terminal's encoding lacks is printed as escapes."""
        gc.set_threshold(_COLLECTED_AFTER)
        escape_unprintable()
        return super().main(*args, **kwargs)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As above; old names stand for the new ones."""
        if args[0] not in self and (new := self.tree.renamed.get(args[0])):
            _note(ctx, args[0], new)
            args = [*new.split(), *args[1:]]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries by section; what others add is in the last one."""
        below = self.tree.below(self.path, whole=True)
        width = max(map(len, below))
        for title, commands in self.tree.sections.items():
            words = {path.partition(" ")[0]: None for path in commands}
            rows = [(word.ljust(width), below.pop(word)) for word in words if word in below]
            with formatter.section(title):
                formatter.write_dl(rows)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the group's own options."""
        as_json = "--json" in args[: args.index("--") if "--" in args else None]
        with usage_errors(as_json):
            ctx = super().make_context(info_name, args, parent, **extra)
        ctx.meta[AS_JSON] = as_json
        return ctx

    def invoke(self, ctx: click.Context) -> Any:
        """Find the command, read its options and run it."""
        with usage_errors(ctx.meta[AS_JSON]):
            return super().invoke(ctx)


def _note(ctx: click.Context, old: str, new: str) -> None:
    """Say what an old name has become; not where a shell only asks how a line may go on."""
    if not ctx.resilient_parsing:
        note(old, new)
