# SPDX-License-Identifier: BSD-2-Clause
"""Replays signed traces on this device, through OP-TEE: the command `gramophone-tee`."""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

from host_tools.device.evidence import LogFile, attest, check_attestation, nonce_of, pem
from host_tools.device.library import ANY_TIME, ENTRIES, LIBRARY, LOGINS, VIAS, Session, TeeError
from host_tools.device.slots import (
    UsageError,
    check_files,
    choose,
    exchange_of,
    explained,
    load,
    slots_of,
    with_log,
)
from host_tools.support import npy
from host_tools.support.device_extras import adders
from host_tools.support.files import check_writable, write_atomically
from host_tools.support.messages import LOG, escape_unprintable, listening
from host_tools.support.version import VERSION
from trace_format.errors import GramophoneError, printable, sentence

PROGRAM = "gramophone-tee"
INTERRUPTED = 130  # exit status, as of a program that SIGINT ended (128 + 2)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are like all others."""

    def error(self, message: str) -> NoReturn:
        """Leave it to `main`."""
        raise UsageError(f"{message} (see '{self.prog} --help')")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; the exit status: 0, 1 if the answer is no, 2 for usage, bad input and what is missing."""
    escape_unprintable()
    given = sys.argv[1:] if arguments is None else list(arguments)
    as_json = "--json" in given
    try:
        options = parser().parse_args(given)
        if options.verbose and options.quiet:
            raise UsageError("--verbose cannot be combined with --quiet")
        with listening(verbose=options.verbose, quiet=options.quiet, log=options.log):
            return _run(options)
    except (GramophoneError, OSError) as error:  # the latter of the log
        return _fail(sentence(error), 2, as_json)


def _run(options: argparse.Namespace) -> int:
    """The command that the options name, its answer, and the exit status."""
    as_json = options.json
    try:
        data, text = options.run(options)
    except TeeError as error:
        code = {"result": f"{error.result:#010x}", "origin": error.origin, "log": error.log}
        return _fail(str(error), 1 if error.refused else 2, as_json, code)
    except (GramophoneError, OSError) as error:
        return _fail(sentence(error), 2, as_json)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED, as_json)
    print(json.dumps({"ok": True, **data}) if as_json else "\n".join(map(printable, text.split("\n"))))
    return 0


def _fail(message: str, status: int, as_json: bool, more: dict[str, Any] | None = None) -> int:
    message = printable(" ".join(message.split()))
    if LOG.handlers:
        LOG.error("error: %s", message)
    else:  # before anybody listens
        print(f"error: {message}", file=sys.stderr)
    if as_json:
        print(json.dumps({"ok": False, "error": message, **(more or {})}))
    return status


def _common() -> Parser:
    """What all commands take."""
    common = Parser(add_help=False)
    common.add_argument(
        "--via", choices=sorted(VIAS), default="ta", help="Call the TA (default) or the pseudo-TA."
    )
    common.add_argument(
        "--login",
        type=_login,
        default=("user", 0),
        metavar="public|user|group=GID",
        help="Login for the TA's client policy; default: user.",
    )
    common.add_argument("--library", default=LIBRARY, help="C library to load; default: the system's.")
    common.add_argument("--json", action="store_true", help="Print the result as one JSON object.")
    common.add_argument("-v", "--verbose", action="store_true", help="Print details of each step.")
    common.add_argument("-q", "--quiet", action="store_true", help="Print only warnings and errors.")
    common.add_argument("--log", type=Path, metavar="FILE", help="File for all messages, with details and times.")
    return common


def _command(
    commands: Any,
    common: Parser,
    name: str,
    run: Callable[[argparse.Namespace], Any],
    text: str,
    example: str,
    nargs: str | None = "",
) -> Parser:
    """A command's parser, among those of all."""
    made: Parser = commands.add_parser(
        name,
        parents=[common],
        help=text,
        description=text,
        epilog=f"Example:\n  {PROGRAM} {name} {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.set_defaults(run=run)
    if nargs is not None:
        made.add_argument("signed", type=Path, metavar="SIGNED", nargs=nargs or None)
    return made


def parser() -> Parser:
    """All commands and their options."""
    top = Parser(
        prog=PROGRAM,
        description="Replay signed traces on this device, through OP-TEE.",
        epilog=f"Example:\n  {PROGRAM} replay net.sgtr --input data=digit.npy -o prob=prob.npy",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"{PROGRAM}, version {VERSION}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    command = functools.partial(_command, commands, _common())
    command("info", info, "Check that the replayer answers, and show a manifest.", "net.sgtr", "?")
    command("slots", slots, "Print a trace's inputs, outputs and parameters.", "net.sgtr --json")
    command("verify", verify, "Check that the device accepts a trace.", "net.sgtr --via pta")
    replay = command(
        "replay", replay_trace, "Replay a signed trace.", "net.sgtr --input data=digit.npy -o prob=prob.npy"
    )
    submit = command(
        "submit",
        submit_trace,
        "Replay a network of a joint trace by a deadline.",
        "joint.sgtr --network lenet --deadline 20000 --input lenet/data=digit.npy",
    )
    submit.add_argument(
        "--deadline",
        type=_microseconds,
        metavar="US",
        help="Deadline in microseconds from now; default: none.",
    )
    for made in (replay, submit):
        _add_files(made)
    replay.add_argument(
        "--entries", type=Path, metavar="FILE", help="File to append the replay log's new entries to."
    )
    log = command("log", take_log, "Take the replay log's new entries.", "replay.log", nargs=None)
    log.add_argument("entries", type=Path, metavar="FILE", help="File to append the entries to.")
    for made, what in ((replay, "the replay"), (log, "the end of the log")):
        made.add_argument("--nonce", type=nonce_of, metavar="HEX", help="Ask for an attestation on this nonce.")
        made.add_argument(
            "--attestation",
            type=Path,
            metavar="FILE",
            help=f"File for the attestation of {what}. Requires --nonce.",
        )
    key = command(
        "device-key",
        take_key,
        "Write the public key of the device's attestations.",
        "-o device.pub.pem",
        nargs=None,
    )
    key.add_argument("-o", "--output", type=Path, metavar="FILE", required=True, help="File to write (PEM).")
    for add in adders():
        add(command, lambda options: _open(options))
    return top


def _add_files(parser: Parser) -> None:
    """Options of what replays."""
    for names, text in (
        (("--input",), "Value of an input slot; repeatable."),
        (("--param",), "Value of a parameter slot (weights); repeatable."),
        (("-o", "--output"), "File for an output slot; repeatable."),
    ):
        parser.add_argument(
            *names, type=_assignment, action="append", default=[], metavar="SLOT=FILE.npy", help=text
        )
    parser.add_argument("--network", metavar="NAME", help="Network of a joint trace.")
    parser.add_argument("--repeat", type=_count, default=1, metavar="N", help="Replays in a row.")


def help_of_commands(parser: Parser) -> list[tuple[str, str]]:
    """Name and help of each command."""
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return [(name, command.format_help()) for name, command in commands.choices.items()]


def _login(value: str) -> tuple[str, int]:
    name, equals, group = value.partition("=")
    if name not in LOGINS or (name == "group") != bool(equals) or (equals and not group.isdecimal()):
        raise argparse.ArgumentTypeError(f"expected public, user or group=GID, found {value!r}")
    if equals and int(group) >= 1 << 32:
        raise argparse.ArgumentTypeError(f"expected a group's id below 2^32, found {group}")
    return name, int(group or 0)


def _assignment(value: str) -> tuple[str, Path]:
    slot, _, path = value.partition("=")
    if not (slot and path):
        raise argparse.ArgumentTypeError(f"expected SLOT=FILE.npy, found {value!r}")
    return slot, Path(path)


def _count(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"expected 1 to 1000000, found {value!r}")
    return int(value)


def _microseconds(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) < 1 << 63:
        raise argparse.ArgumentTypeError(f"expected microseconds, 1 or more, found {value!r}")
    return int(value)


def _open(options: argparse.Namespace) -> Session:
    login, group = options.login
    return Session(options.via, login, group, options.library)


def info(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """What answers, and what the trace says of itself."""
    with _open(options) as session:
        data: dict[str, Any] = {"via": options.via}
        if options.signed is None:
            return data, f"the replayer answers, through the {options.via.upper()}"
        load(session, options.signed)
        manifest, log = session.manifest(), session.log()
        for name in ("name", "trace_id", "source_hash", "recorder", "kernel", "driver", "framework"):
            data[name] = session.text(getattr(manifest, name))
        for name in ("security_version", "gpu", "job_count", "action_count", "slot_count", "carveout_bytes"):
            data[name] = int(getattr(manifest, name))
        data |= {name: log[name] for name in ("secure_bytes", "verify_us", "load_us")}
    return data, "\n".join(f"{name}: {value}" for name, value in data.items())


def slots(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """What the trace takes and gives."""
    with _open(options) as session:
        load(session, options.signed)
        found = slots_of(session)
    rows = [
        {
            "name": slot.name,
            "kind": slot.kind,
            "dtype": npy.ELEMENTS[slot.dtype][0],
            "shape": list(slot.shape),
            "bytes": slot.bytes,
            "bound": slot.bound,
        }
        for slot in found
    ]
    return {"slots": rows}, "\n".join(map(str, found))


def verify(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Whether the device accepts the trace."""
    with _open(options) as session:
        load(session, options.signed)
        name = session.text(session.manifest().name)
    return {"name": name}, f"{options.signed}: accepted ({name})"


def replay_trace(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Replay the trace, write its outputs."""
    check_files(options)
    check_attestation(options.nonce, options.attestation)
    entries = LogFile(options.entries)
    with _open(options) as session, ExitStack() as last:
        entries.take(session)  # so that there is room
        last.callback(entries.take, session)
        load(session, options.signed)
        LOG.debug("loaded: %s", session.log())
        exchange = exchange_of(options, choose(session, options.network))
        exchange.give(session)
        for replay in range(options.repeat):
            try:
                session.run()
            except TeeError as error:
                raise explained(with_log(session, error), replay) from None
            if replay % (ENTRIES // 2) == 0:
                entries.take(session)
        attest(session, options.nonce, options.attestation)
        log = session.log()
        results = exchange.take(session)
    written = exchange.write(results)
    answer = {"via": options.via, "replays": options.repeat, "log": log, "outputs": written}
    lines = [_figures(log), *([f"log: {entries.taken} entries"] if entries.path else []), *_files(written)]
    return answer | {"entries": entries.taken}, "\n".join(lines)


def submit_trace(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Ask for replays with a deadline, and have pieces of all that waits run until they are over."""
    check_files(options)
    pieces = 0
    with _open(options) as session:
        load(session, options.signed, or_share=True)
        exchange = exchange_of(options, choose(session, options.network))
        exchange.give(session)
        for replay in range(options.repeat):
            session.submit(ANY_TIME if options.deadline is None else options.deadline)
            try:
                waits = True
                while waits:
                    waits = session.step()
                    pieces += 1
            except TeeError as error:
                raise explained(with_log(session, error), replay) from None
        log = session.log()
        results = exchange.take(session)
    written = exchange.write(results)
    answer = {"via": options.via, "replays": options.repeat, "pieces": pieces, "log": log, "outputs": written}
    return answer, "\n".join([f"{_figures(log)}, {pieces} pieces", *_files(written)])


def _figures(log: dict[str, int]) -> str:
    figures = ("jobs", "actions", "retries", "secure_bytes", "verify_us", "load_us", "replay_us")
    return ", ".join(f"{name} {log[name]}" for name in figures)


def _files(written: dict[str, str]) -> list[str]:
    return [f"{printable(name)} -> {path}" for name, path in written.items()]


def take_log(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Take the log's entries."""
    check_attestation(options.nonce, options.attestation)
    entries = LogFile(options.entries)
    with _open(options) as session:
        entries.take(session)
        attest(session, options.nonce, options.attestation)
    return {"entries": entries.taken}, f"{options.entries}: {entries.taken} entries more"


def take_key(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Write the device's public key."""
    check_writable(options.output)
    with _open(options) as session:
        key = session.device_key()
    write_atomically(options.output, pem(key))
    return {"output": str(options.output)}, f"{options.output}: the key of the device's attestations"


if __name__ == "__main__":
    sys.exit(main())
