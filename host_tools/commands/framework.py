# SPDX-License-Identifier: BSD-2-Clause
"""What all commands share: `--json`, exit statuses and errors in one sentence.

A command is a function that returns an `Outcome`:

    @click.command(cls=GramophoneCommand, example="gramophone count net.gtr")
    @click.argument("file", type=FILE)
    def count(file: Path) -> Outcome:
        "Count the actions of a trace."
        return Outcome({"actions": 3}, "3 actions")

Standard output is only the result; messages and progress go to standard error through `say` (or rich's
`Console(stderr=True)`). Exit status: 0, 1 if the outcome is not ok, 2 for usage and bad input.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import click

from trace_format.errors import GramophoneError, printable

FILE = click.Path(path_type=Path)  # opened by the command, so that a missing one is an error like any other
AS_JSON = "gramophone.as_json"  # key in the context's `meta`: whether --json is among the arguments


class UsageError(GramophoneError):
    """Options that do not fit together."""


@dataclass
class Outcome:
    """What a command found out.

    Attributes:
        data: the fields of the JSON object; "ok" is put before them.
        text: the same for people, without a newline at the end; "" prints nothing.
        ok: False if the answer is no.
    """

    data: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    ok: bool = True


def say(message: str) -> None:
    """Tell the user something that is not the result."""
    click.echo(_shown(message), err=True)


def _shown(text: str) -> str:
    """As it is printed: escapes for what a terminal acts on. Line ends of names have been escaped before."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


class GramophoneCommand(click.Command):
    """A command whose function returns an `Outcome`; `example` is shown by `--help`."""

    def __init__(self, *args: Any, example: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example
        self.params.append(
            click.Option(["--json", "as_json"], is_flag=True, help="Print the result as one JSON object.")
        )

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the example as the user types it."""
        with formatter.section("Example"):
            for line in self.example.splitlines():
                formatter.write(f"  {line}\n")

    def invoke(self, ctx: click.Context) -> NoReturn:
        """Run the command, print its outcome and end with its exit status."""
        as_json = ctx.params.pop("as_json")
        try:
            outcome: Outcome = super().invoke(ctx)
        except GramophoneError as error:
            _fail(ctx, str(error), as_json)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of our output is gone; click knows what to do
                raise
            _fail(ctx, f"{error.filename}: {error.strerror}" if error.filename else str(error), as_json)
        except (click.Abort, KeyboardInterrupt):
            _fail(ctx, "interrupted", as_json)
        if as_json:
            click.echo(json.dumps({"ok": outcome.ok, **outcome.data}))
        elif outcome.text:
            click.echo(_shown(outcome.text))
        ctx.exit(0 if outcome.ok else 1)


@dataclass(frozen=True)
class LazyCommand:
    """Where a command is, for a group that imports it only when it is used.

    Attributes:
        function: MODULE.FUNCTION below `host_tools.commands`.
        summary: the first sentence of its help.
    """

    function: str
    summary: str

    def load(self) -> click.Command:
        """The command itself."""
        module, _, name = self.function.rpartition(".")
        command: click.Command = getattr(importlib.import_module(f"{__package__}.{module}"), name)
        return command


class GramophoneGroup(click.Group):
    """The outermost group.

    Its commands are lazy: `--help` prints their summaries without an import. Wrong options and arguments are one
    sentence and, with `--json`, one object, too.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, LazyCommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands, sorted."""
        return sorted(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is none of this name."""
        return self.lazy[cmd_name].load() if cmd_name in self.lazy else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries, each cut to one line as click does."""
        names = self.list_commands(ctx)
        limit = formatter.width - 6 - max(map(len, names))
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, click.Command(name, help=self.lazy[name].summary).get_short_help_str(limit))
                    for name in names
                ]
            )

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the group's own options."""
        as_json = "--json" in args[: args.index("--") if "--" in args else None]
        with _usage_errors(as_json):
            ctx = super().make_context(info_name, args, parent, **extra)
        ctx.meta[AS_JSON] = as_json
        return ctx

    def invoke(self, ctx: click.Context) -> Any:
        """Find the command, read its options and run it."""
        with _usage_errors(ctx.meta[AS_JSON]):
            return super().invoke(ctx)


@contextlib.contextmanager
def _usage_errors(as_json: bool) -> Iterator[None]:
    """Turn click's usage errors into ours; a group without a command still shows its help."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        hint = f" (see '{error.ctx.command_path} --help')" if error.ctx else ""
        raise _OneSentence(error.format_message().rstrip(".") + hint, as_json) from None


class _OneSentence(click.ClickException):
    """An error that click is to show as `_tell` does."""

    exit_code = 2

    def __init__(self, message: str, as_json: bool) -> None:
        super().__init__(message)
        self.as_json = as_json

    def show(self, file: Any = None) -> None:
        _tell(self.message, self.as_json)


def _tell(message: str, as_json: bool) -> None:
    message = printable(" ".join(message.split()))
    say(f"error: {message}")
    if as_json:
        click.echo(json.dumps({"ok": False, "error": message}))


def _fail(ctx: click.Context, message: str, as_json: bool) -> NoReturn:
    _tell(message, as_json)
    ctx.exit(2)
