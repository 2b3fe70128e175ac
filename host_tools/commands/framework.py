# SPDX-License-Identifier: BSD-2-Clause
"""What all commands share: `--json`, exit statuses and errors in one sentence.

A command is a function that returns an `Outcome`:

    @click.command(cls=GramophoneCommand, example="gramophone count net.gtr")
    @click.argument("file", type=FILE)
    def count(file: Path) -> Outcome[Counted]:
        "Count the actions of a trace."
        return Outcome(Counted(actions=3), "3 actions")

`Counted` is a class of fields (host_tools.support.results), which `--json` prints.

Standard output is only the result. Messages go to standard error through `say` and `warn`, progress through
`host_tools.support.progress`; `--quiet`, `--verbose` and `--log` are theirs. With `-o -` standard output is the
output file, and the result goes to standard error. Exit status: 0, 1 if the outcome is not ok, 2 for usage and bad
input, 128 plus its number after a signal: 130 if interrupted.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import click

from host_tools.commands import option_rules
from host_tools.support.files import private_files
from host_tools.support.messages import LOG, listening, shown, warn
from host_tools.support.packages import missing
from host_tools.support.programs import Ended, ended_by_signals
from host_tools.support.top_level import clash
from host_tools.support.version import VERSION
from trace_format.errors import GramophoneError, printable, sentence

__all__ = [
    "FILE",
    "STREAM",
    "GramophoneCommand",
    "Outcome",
    "UsageError",
    "say",
    "warn",
]


# New objects before cycles are looked for: not as soon as Python does, since pages of a network are many objects.
_COLLECTED_AFTER = 100_000


class _File(click.Path):
    """A path. It is opened by the command, so that a missing one is an error like any other."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)
        self.name = "file"  # as help calls it


FILE = _File()
STREAM = Path("-")  # as a file: standard input, or standard output
INTERRUPTED = 130  # exit status, as of a program that SIGINT ended (128 + 2)
WRITTEN = frozenset(("-o", "--output", "--sarif", "--pdf"))  # options that name what a command writes
AS_JSON = "gramophone.as_json"  # key in the context's `meta`: whether --json is among the arguments


class UsageError(GramophoneError):
    """Options that do not fit together."""


Found = TypeVar("Found", covariant=True)


@dataclass
class Outcome(Generic[Found]):
    """What a command found out.

    Attributes:
        data: the fields of the JSON object; "ok" and "warnings" are put before them.
        text: the same for people, without a newline at the end; "" prints nothing.
        ok: False if the answer is no.
    """

    data: Found
    text: str = ""
    ok: bool = True


def print_json(command_path: str, data: dict[str, Any]) -> None:
    """Print what `--json` asks for; the tests see all that is printed here."""
    click.echo(json.dumps(data))


def say(message: str) -> None:
    """Tell the user something that is not the result."""
    LOG.info("%s", message)


def note(old: str, new: str) -> None:
    """Say what an old name has become."""
    click.echo(f"note: '{old}' is now '{new}'", err=True)


class WithExample(click.Command):
    """What has an example in its help: lines that a user may type."""

    def __init__(self, *args: Any, example: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = "\n".join([example, *getattr(self.callback, "added_examples", ())])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the example as the user types it."""
        with formatter.section("Example"):
            for line in self.example.splitlines():
                formatter.write(f"  {line}\n")


class GramophoneCommand(WithExample):
    """A command whose function returns an `Outcome`; `example` is shown by `--help`.

    Args:
        in_place: name of a flag with which the output may be the file that is the argument.
        groups: title -> options that help shows under it, in this order, before all others.
        reads_traces: it takes keys that encrypted traces are read with. With such a key, all that it writes is
            the user's alone.
        keeps_encrypted: what it writes is as encrypted as what it reads, and may be published.
        renamed: old name of an option -> its name now, for one release.
    """

    def __init__(
        self,
        *args: Any,
        in_place: str = "",
        groups: Mapping[str, Sequence[str]] | None = None,
        reads_traces: bool = False,
        keeps_encrypted: bool = False,
        renamed: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.reads_traces, self.keeps_encrypted = reads_traces, keeps_encrypted
        if reads_traces:
            self.params.append(_decrypt_with())
        self.in_place = in_place
        self.renamed = renamed or {}
        self.groups = groups or {}
        self.params += [
            click.Option(["--json", "as_json"], is_flag=True, help="Print the result as one JSON object."),
            click.Option(["-v", "--verbose"], is_flag=True, help="Print details of each step."),
            click.Option(
                ["-q", "--quiet"],
                is_flag=True,
                help="Print only warnings, errors and results: no progress, no summary of written files.",
            ),
            click.Option(["--log"], type=FILE, help="File for all messages, with details and times."),
        ]

    def grouped(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Title -> options and their help; all are "Options" where there are no groups."""
        title_of = {option: title for title, options in self.groups.items() for option in options}
        rest = "Other options" if self.groups else "Options"
        found: dict[str, list[tuple[str, str]]] = {title: [] for title in (*self.groups, rest)}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                title = next((title_of[opt] for opt in param.opts if opt in title_of), rest)
                found[title].append(record)
        return found

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by group."""
        for title, records in self.grouped(ctx).items():
            with formatter.section(title):
                formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options. One that takes a single value is given once: the last would win in silence."""
        if not ctx.resilient_parsing:
            args = self._with_new_names(args)
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for param in order:
                single = isinstance(param, click.Option) and not (param.multiple or param.is_flag or param.count)
                if single and order.count(param) > 1:
                    raise click.UsageError(f"{' / '.join(param.opts)} is given twice and takes one value", ctx)
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            option_rules.check(ctx, self.callback)
        return rest

    def _with_new_names(self, args: list[str]) -> list[str]:
        """Arguments in which old names of options are the new ones; a note says so."""
        end = args.index("--") if "--" in args else len(args)
        found = list(args)
        for at, (name, equals, value) in enumerate(arg.partition("=") for arg in args[:end]):
            if name in self.renamed:
                note(name, self.renamed[name])
                found[at] = f"{self.renamed[name]}{equals}{value}"
        return found

    def invoke(self, ctx: click.Context) -> NoReturn:
        """Run the command, print its outcome and end with its exit status."""
        as_json, verbose, quiet, log = map(ctx.params.pop, ("as_json", "verbose", "quiet", "log"))
        to_stdout = ctx.params.get("output") == STREAM
        with contextlib.ExitStack() as stack:
            if ctx.params.get("decrypt_with") and not self.keeps_encrypted:
                stack.enter_context(private_files())
            try:
                if verbose and quiet:
                    raise UsageError("--verbose cannot be combined with --quiet")
                if to_stdout and as_json:
                    raise UsageError("'-o -' cannot be combined with --json: there is one standard output")
                used = {os.path.realpath(path) for path in _paths(ctx.params.values())} if log else set()
                if log is not None and os.path.realpath(log) in used:
                    raise UsageError(f"--log {log}: this file has another use here")
                warnings = stack.enter_context(listening(verbose=verbose, quiet=quiet, log=log))
            except (GramophoneError, OSError) as error:
                _fail(ctx, sentence(error), as_json)
            LOG.debug("gramophone %s: %s", VERSION, shlex.join(sys.argv))
            if paths := ctx.params.pop("decrypt_with", ()):
                stack.enter_context(self._reading_with(ctx, paths, as_json))
            outcome = self._outcome(ctx, as_json)
        if as_json:
            from host_tools.support.results import fields  # help needs no msgspec

            print_json(ctx.command_path, {"ok": outcome.ok, "warnings": warnings, **fields(outcome.data)})
        elif outcome.text and not (quiet and outcome.ok and ctx.params.get("output")):
            click.echo(shown(outcome.text), err=to_stdout)
        ctx.exit(0 if outcome.ok else 1)

    def _reading_with(
        self, ctx: click.Context, paths: Iterable[Path], as_json: bool
    ) -> contextlib.AbstractContextManager[None]:
        """Where encrypted traces are read with the keys in these files; ends with the status of an error."""
        from host_tools.commands.decryption_keys import read_decryption_key  # help needs no cryptography
        from signing.encryption import reading_with

        try:
            self._keep_inputs({**ctx.params, "decrypt_with": tuple(paths)})
            return reading_with([read_decryption_key(path) for path in paths])
        except (GramophoneError, OSError) as error:
            _fail(ctx, sentence(error), as_json)

    def _outcome(self, ctx: click.Context, as_json: bool) -> Outcome[Any]:
        """What the command finds out; ends with the status of an error if there is one."""
        try:
            self._keep_inputs(ctx.params)
            with ended_by_signals():
                outcome: Outcome[Any] = super().invoke(ctx)
        except GramophoneError as error:
            _fail(ctx, str(error), as_json)
        except ImportError as error:
            if not (said := missing(error)):
                raise
            _fail(ctx, said, as_json)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of our output is gone; click knows what to do
                raise
            _fail(ctx, sentence(error), as_json)
        except KeyboardInterrupt:
            _fail(ctx, "interrupted", as_json, INTERRUPTED)
        except Ended as ended:
            _fail(ctx, str(ended), as_json, ended.exit_status)
        except click.Abort as abort:  # a prompt's: interrupted, or nobody there
            interrupted = isinstance(abort.__context__, KeyboardInterrupt)
            _fail(ctx, "interrupted", as_json, INTERRUPTED if interrupted else 2)
        return outcome

    def _keep_inputs(self, values: Mapping[str, Any]) -> None:
        """No file is read and written: a mistake would cost the input."""
        outputs = {param.name for param in self.params if WRITTEN.intersection(param.opts)}
        changed = {
            param.name for param in self.params if values.get(self.in_place) and isinstance(param, click.Argument)
        }
        inputs = _paths(value for name, value in values.items() if name not in outputs | changed)
        for output in _paths(values.get(name or "") for name in outputs):
            if output.exists() and any(path.exists() and output.samefile(path) for path in inputs):
                raise UsageError(f"{output}: the output is one of the files that are read")


def _decrypt_with() -> click.Option:
    return click.Option(
        ["--decrypt-with"],
        type=FILE,
        multiple=True,
        help="Private key (PEM) or device secret to decrypt traces with; repeatable.",
    )


def _paths(values: Iterable[Any]) -> set[Path]:
    """All paths among the values of options and arguments, as they were given."""
    found = set()
    for value in values:
        if isinstance(value, Path):
            found.add(value)
        elif isinstance(value, tuple):
            found |= _paths(value)
    return found


@contextlib.contextmanager
def usage_errors(as_json: bool) -> Iterator[None]:
    """Turn click's usage errors into ours, and an interrupt before a command listens, and imports that others'
    packages made fail; a group without a command still shows its help.
    """
    try:
        yield
    except KeyboardInterrupt:
        _tell("interrupted", as_json)
        sys.exit(INTERRUPTED)
    except ImportError as error:
        if said := missing(error) or clash():
            raise _OneSentence(said, as_json) from error
        raise
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
    if LOG.handlers:
        LOG.error("error: %s", message)
    else:  # before a command listens
        click.echo(f"error: {message}", err=True)
    if as_json:
        print_json("", {"ok": False, "error": message})


def _fail(ctx: click.Context, message: str, as_json: bool, status: int = 2) -> NoReturn:
    _tell(message, as_json)
    ctx.exit(status)


class Positive(click.FloatRange):
    """A number above 0, and not infinite."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"expected a number above 0, found {value!r}", param, ctx)
        return found


class Pair(click.ParamType[Any]):
    """NAME=VALUE, as a pair of texts."""

    def __init__(self, form: str) -> None:
        self.name = form

    def get_metavar(self, *_: Any, **__: Any) -> str:
        """As help shows it."""
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The two sides."""
        name, equals, other = str(value).partition("=")
        if not (name and equals and (other or self.name == "NAME=VALUE")):
            self.fail(f"expected {self.name}, found {value!r}", param, ctx)
        return name, other
