# SPDX-License-Identifier: BSD-2-Clause
"""`record ... --if-changed`: nothing is recorded where the output was made of the same model, options and tool."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from host_tools.commands.facts import facts
from host_tools.commands.framework import STREAM, Outcome, UsageError, say
from host_tools.commands.record_options import Recorded
from host_tools.machine.snapshot import timestamp
from host_tools.support.unchanged import EPOCH, content_hash, keep, tool_stamp, why_changed

PACKAGES = "the recording machine's packages"
NOT_OF_THE_RESULT = ("output", "timeout")  # options that change no recording
FILES = ("inputs", "values", "constants")  # options NAME=FILE
ARGUMENTS = "args"  # of a program: those that name files are files

Params = Mapping[str, Any]
Also = Callable[[Params], Iterable[Path]]


def recording(
    also: Also = lambda _: (),
) -> Callable[[Callable[..., Outcome[Recorded]]], Callable[..., Outcome[Recorded]]]:
    """Give a command that records to `output` the option --if-changed.

    Args:
        also: files that it reads and that are no options, by its options.
    """

    def decorate(command: Callable[..., Outcome[Recorded]]) -> Callable[..., Outcome[Recorded]]:
        @click.option(
            "--if-changed",
            is_flag=True,
            help="Do nothing if the output was recorded from the same files, options and versions.",
        )
        @functools.wraps(command)
        def unless_unchanged(if_changed: bool, **params: Any) -> Outcome[Recorded]:
            return _recorded(command, also, params) if if_changed else command(**params)

        return unless_unchanged

    return decorate


def _recorded(command: Callable[..., Outcome[Recorded]], also: Also, params: Params) -> Outcome[Recorded]:
    from host_tools.machine.root import packages_key

    output: Path = params["output"]
    if output == STREAM:
        raise UsageError("--if-changed: standard output has no file to compare with")
    snapshot = params.get("snapshot")
    stamp = timestamp(snapshot) if snapshot is not None else ""
    found = _ingredients(params, also(params))
    if not (why := why_changed(output, {**found, PACKAGES: packages_key(stamp)})):
        return _unchanged(output, stamp)
    say(f"{output}: {why}")
    outcome = command(**params)
    keep(output, {**found, PACKAGES: packages_key(stamp)})  # it may have been prepared meanwhile
    return outcome


def _ingredients(params: Params, also: Iterable[Path]) -> dict[str, str]:
    """What a recording depends on, as of `host_tools.extras.project.tasks.task.Task.ingredients`."""
    options = {name: value for name, value in params.items() if name not in NOT_OF_THE_RESULT}
    options["command"] = click.get_current_context().info_name
    found = {"options": json.dumps(options, sort_keys=True, default=_told), "the tool": tool_stamp()}
    found |= {what: content_hash(path) for what, path in _files(options)}
    found |= {f"weights {path.name}": content_hash(path) for path in also if path.exists()}
    if epoch := os.environ.get(EPOCH):
        found[EPOCH] = epoch
    return found


def _files(options: Params) -> Iterator[tuple[str, Path]]:
    for name, value in options.items():
        if isinstance(value, Path):
            yield f"{name} {value.name}", value
        elif name in FILES:
            yield from ((f"{name} {key}", Path(file)) for key, file in value)
        elif isinstance(value, tuple):
            for number, one in enumerate(value):
                is_file = isinstance(one, Path) or (name == ARGUMENTS and os.path.exists(one))
                if is_file:
                    yield f"{name} {number + 1}", Path(one)


def _told(value: object) -> str:
    """An option's value that JSON has no form of. Where a file lies makes no difference, its name may."""
    return value.name if isinstance(value, Path) else str(value)


def _unchanged(output: Path, stamp: str) -> Outcome[Recorded]:
    from host_tools.runners.replay import FULL
    from trace_format.trace import Trace

    trace = Trace.read(output)
    found = Recorded(
        **facts(trace),
        trace_bytes=output.stat().st_size,
        compute=FULL,
        snapshot=stamp or None,
        precision=trace.notes.get("precision", []),
        unchanged=True,
    )
    text = f"{output}: unchanged: recorded from the same files, options and versions; nothing is done"
    return Outcome(found, text)
