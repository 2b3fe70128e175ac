# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone manual`: man pages and shell completion, made of the commands themselves."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import get_completion_class
from click_man.man import ManPage

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, WithExample
from host_tools.commands.result_schemas import commands, result_types, schema_of
from host_tools.commands.tree import usable
from host_tools.device import cli as device
from host_tools.support.files import write_atomically
from host_tools.support.results import Result
from host_tools.support.version import VERSION
from trace_format.errors import GramophoneError


class Installed(Result):
    """Manual pages, shell completion and schemas that were written."""

    folder: str
    files: list[str]


PROGRAM = "gramophone"
DATE = "2026-01-01"  # the same pages for the same version, whenever they are made
# Where each shell looks, below a prefix whose bin/ is on the path.
COMPLETIONS = {
    "bash": f"share/bash-completion/completions/{PROGRAM}",
    "zsh": f"share/zsh/site-functions/_{PROGRAM}",
    "fish": f"share/fish/vendor_completions.d/{PROGRAM}.fish",
}
EXIT_STATUS = """\
.SH EXIT STATUS
0, 1 if the answer is no, 2 for bad usage or input, 130 if interrupted.
"""


def pages(
    group: click.Command, parent: click.Context | None = None, name: str = PROGRAM
) -> Iterator[tuple[str, str]]:
    """Name and text of the page of a command, and of those below it."""
    ctx = click.Context(group, info_name=name, parent=parent)
    page = ManPage(ctx.command_path)
    page.version, page.date = VERSION, DATE
    page.short_help = group.get_short_help_str(1000)
    page.synopsis = " ".join(group.collect_usage_pieces(ctx))
    page.description = inspect.cleandoc(group.help or "")
    groups = group.grouped(ctx) if isinstance(group, GramophoneCommand) and group.groups else {}
    if not groups:
        records = (param.get_help_record(ctx) for param in group.params if isinstance(param, click.Option))
        page.options = [record for record in records if record]  # a deprecated option has none
    text = _plain(str(page))
    for title, rows in groups.items():
        text += f".SH {title.upper()}\n"
        text += "".join(f".TP\n\\fB{_escaped(option)}\\fP\n{_escaped(said)}\n" for option, said in rows)
    if isinstance(group, click.Group):
        below = list(usable(group, ctx))
        text += ".SH COMMANDS\n"
        for child, command in below:
            text += f".TP\n\\fB{ctx.command_path} {child}\\fP\n{_escaped(command.get_short_help_str(1000))}\n"
    if isinstance(group, WithExample):
        text += f".SH EXAMPLES\n.nf\n{_escaped(group.example)}\n.fi\n"
    yield ctx.command_path.replace(" ", "-"), text + EXIT_STATUS
    if isinstance(group, click.Group):
        for child, command in below:
            yield from pages(command, ctx, child)


def device_page() -> tuple[str, str]:
    """The page of gramophone-tee, which is no program of click's: its own help."""
    parser = device.parser()
    text = f'.TH "{parser.prog.upper()}" "1" "{DATE}" "{VERSION}" "{parser.prog} Manual"\n'
    text += f".SH NAME\n{_escaped(parser.prog)} \\- {_escaped(str(parser.description))}\n"
    for heading, help_text in (("DESCRIPTION", parser.format_help()), *device.help_of_commands(parser)):
        text += f".SH {_escaped(heading.upper())}\n.nf\n{_escaped(help_text.rstrip())}\n.fi\n"
    return parser.prog, text + EXIT_STATUS


def _escaped(text: str) -> str:
    """Text in which nothing is a request of roff, and hyphens are minus signs."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.MULTILINE)


def _plain(page: str) -> str:
    """A page of click-man's, whose descriptions are not escaped: no line of text is a request by chance."""
    known = (".TH ", ".SH ", ".PP", ".B ", ".TP")
    return "".join(
        f"{line if line.startswith(known) or not line.startswith(('.', chr(39))) else chr(92) + '&' + line}\n"
        for line in page.splitlines()
    )


def completion(group: click.Command, shell: str) -> str:
    """What a shell is to read once."""
    made = get_completion_class(shell)
    if made is None:
        raise GramophoneError(f"click knows no completion for {shell}")
    return made(group, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source()


@click.command(
    "manual",
    cls=GramophoneCommand,
    example="gramophone manual\ngramophone manual -o /usr/local\nman gramophone-replay",
)
@click.option(
    "-o",
    "--output",
    type=FILE,
    default=Path(sys.prefix),
    help=(
        "Prefix whose share/ gets the files; default: this Python's prefix, where `man` and the shells find them."
    ),
)
@click.pass_context
def manual_command(ctx: click.Context, output: Path) -> Outcome[Installed]:
    """Install man pages, shell completion and JSON Schemas.

    The schemas are of what --json prints. Pages are for `man gramophone` and `man gramophone-COMMAND`, completion
    for bash, zsh and fish; `make setup` runs this in .venv. Bash finds its file with the package bash-completion,
    zsh when the folder is in its fpath.
    """
    main = ctx.find_root().command
    manual = {f"share/man/man1/{name}.1": text for name, text in (*pages(main), device_page())}
    schemas = {
        f"share/gramophone/schemas/{'-'.join(words)}.json": json.dumps(schema_of(words, command), indent=2) + "\n"
        for words, command in commands(main)
        if result_types(command)
    }
    files = manual | schemas | {path: completion(main, shell) for shell, path in COMPLETIONS.items()}
    for name, text in files.items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    return Outcome(
        Installed(str(output), sorted(files)),
        f"{output}/share: {len(manual)} man pages, {len(schemas)} JSON Schemas, completion for "
        f"{', '.join(COMPLETIONS)}",
    )
