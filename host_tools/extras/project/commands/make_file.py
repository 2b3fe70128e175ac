# SPDX-License-Identifier: BSD-2-Clause
"""A project file, gramophone.toml: networks, GPUs, targets, keys, what is expected and what it may cost."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from host_tools.commands.build import build_command
from host_tools.commands.flash import flash_command
from host_tools.commands.generate import generate_command
from host_tools.commands.record import record_ncnn
from host_tools.commands.record_models import record_onnx
from host_tools.commands.replay import replay_command
from host_tools.commands.report import report_command
from host_tools.commands.sign import sign
from host_tools.extras.project.commands.make_bounds import PROGRAMS, Folder, Program, ProjectError
from host_tools.extras.project.commands.make_device import TargetDevice, check_sources, read_device
from host_tools.extras.project.commands.make_options import Options, read_options
from host_tools.extras.project.commands.make_settings import keys_of, settings_file
from host_tools.support.extra import command
from tee_replayer.generator import boards, platforms
from tee_replayer.generator.boards import Board
from trace_format import limits, profile
from trace_format.errors import GramophoneError, listed, meant
from trace_format.files import read_file
from trace_format.toml_table import Table, loads

FILE_NAME = "gramophone.toml"
RECORDING = "recording"  # a source that needs no task
# Kind of source that an extra has the command of.
_OF_EXTRAS = {"pytorch": ("record", "pytorch"), "gpureplay": ("import", "gpureplay")}
# Kind of source -> the command that makes a recording of it, its words, and how many files it takes.
SOURCES: dict[str, tuple[Any, tuple[str, ...], int]] = {
    "ncnn": (record_ncnn, ("record", "ncnn"), 2),
    "onnx": (record_onnx, ("record", "onnx"), 1),
    **{kind: (made, words, 1) for kind, words in _OF_EXTRAS.items() if (made := command(" ".join(words)))},
    RECORDING: (None, (), 1),
}
TRACE_BUDGETS = ("trace-bytes", "carveout-bytes", "jobs", "actions", "replay-us")
TARGET_BUDGETS = ("firmware-bytes", "image-bytes")
NOT_OF_KEYS = ("replace", "to-be-signed", "signature", "half")  # options of `sign` that make nothing to keep
_TABLES = ("record", "build", "report", "replay", "sign")


@dataclass(frozen=True)
class Key:
    """Who signs.

    Attributes:
        public: the public key.
        options: of `sign`.
        settings: the user's settings, if they have the options; None: the project file has.
    """

    public: Path
    options: Options
    settings: Path | None = None


@dataclass(frozen=True)
class Network:
    """A network; one trace for each GPU.

    Attributes:
        name: in the file.
        source: kind, a key of `SOURCES`.
        paths: of its files.
        gpus: that it is for.
        record_on: GPU that it is recorded on, if not each of `gpus`; "" otherwise.
        key: name of the key that signs.
        options: of the commands, by the names of `_TABLES`.
        has_expected: whether a replay is compared with what is expected.
        budgets: name of `TRACE_BUDGETS` -> most.
    """

    name: str
    source: str
    paths: tuple[Path, ...]
    gpus: tuple[str, ...]
    record_on: str
    key: str
    options: dict[str, Options]
    has_expected: bool
    budgets: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """A device: what is generated for it.

    Attributes:
        name: in the file.
        gpu: that it has.
        board: as `generate` takes it: a platform's name, or a description.
        bare: whether `make` compiles it: of OP-TEE and Linux it does not.
        networks: whose traces for this GPU go into the image.
        image: whether there is one.
        generate, flash: options.
        device: its device file, which says what `generate` makes; None: the options do.
        budgets: name of `TARGET_BUDGETS` -> most.
    """

    name: str
    gpu: str
    board: str | Path
    bare: bool
    networks: tuple[str, ...]
    image: bool
    generate: Options
    flash: Options
    budgets: dict[str, int] = field(default_factory=dict)
    device: TargetDevice | None = None


@dataclass(frozen=True)
class Project:
    """What a project file says.

    Attributes:
        file: the file.
        name: of the project.
        out: folder for what is made.
        policy: trust policy that devices have, in place of a public key; None without.
    """

    file: Path
    name: str
    out: Path
    policy: Path | None
    keys: dict[str, Key]
    networks: dict[str, Network]
    targets: dict[str, Target]

    @property
    def programs(self) -> list[Program]:
        """All that would run besides this tool, compilers and emulators."""
        tables = [(f"keys.{name}", key.options, key.settings) for name, key in self.keys.items()]
        for network in self.networks.values():
            tables += [(f"networks.{network.name}.{part}", row, None) for part, row in network.options.items()]
        for target in self.targets.values():
            tables += [(f"targets.{target.name}.generate", target.generate, None)]
            tables += [(f"targets.{target.name}.flash", target.flash, None)]
        found = [
            Program(f"{where}.{option[2:]}", str(value), PROGRAMS[option], source or self.file, source is None)
            for where, options, source in tables
            for option, value in options.rows
            if option in PROGRAMS
        ]
        devices = [(name, target.device) for name, target in self.targets.items() if target.device]
        return found + [
            Program(
                f"targets.{name}.device", str(device.says.client_policy), PROGRAMS["--policy"], self.file, True
            )
            for name, device in devices
            if device.says.client_policy
        ]

    def trusted(self, key: str) -> Path:
        """What replays and reports trust of what a key has signed."""
        return self.policy or self.keys[key].public


def read_project(file: Path) -> Project:
    """Read a project file.

    Raises:
        ProjectError: it is malformed; the error names the file and the key.
        OSError: it cannot be read.
    """
    try:
        return _project(file)
    except ProjectError as error:
        error.file = error.file or str(file)
        raise


def _project(file: Path) -> Project:
    top = Table(loads(read_file(file, limits.SMALL_BYTES), ProjectError), "", ProjectError)
    folder = Folder(file.parent)
    name = top.take("name", str, file.resolve().parent.name)
    out_text = top.take("out", str, "out")
    out = folder.inside(top, "out", out_text)
    below = Path(os.path.realpath(out)).relative_to(os.path.realpath(folder.path))
    if not below.parts or any(part.startswith(".") for part in below.parts):
        raise top.fail("out", "a folder of its own below the project's, whose name has no dot before it", out_text)
    policy = folder.inside(top, "policy", top.text("policy")) if "policy" in top.rows else None
    own = keys_of(folder.path, NOT_OF_KEYS)
    keys = {key: _key(table, folder, own.pop(key, None)) for key, table in _tables(top, "keys")}
    if own:
        raise ProjectError(f"{min(own)}: {file} has no such key", file=str(settings_file()))
    networks = {row: _network(row, table, folder, keys) for row, table in _tables(top, "networks")}
    targets = {row: _target(row, table, folder, networks) for row, table in _tables(top, "targets", {})}
    top.end()
    if both := networks.keys() & targets.keys():
        raise top.fail(f"targets.{min(both)}: a network has this name, too")
    for target in targets.values():
        if (
            target.device is None
            and policy is None
            and len(keys) != 1
            and "--key" not in dict(target.generate.rows)
        ):
            raise top.fail(
                f"targets.{target.name}.generate: key is missing: of several keys one, or a trust policy"
            )
    return Project(file, name, out, policy, keys, networks, targets)


def _tables(top: Table, key: str, default: dict[str, Any] | None = None) -> list[tuple[str, Table]]:
    """The tables in a table, by their names, which become names of files."""
    table = top.table(key, default)
    rows = []
    for name in list(table.rows):
        if re.fullmatch("[A-Za-z0-9][A-Za-z0-9_-]*", name) is None:  # a first - would make it an option
            raise table.fail(f"{name!r}: a name", "letters, digits, - and _, but no - or _ at its beginning")
        rows.append((name, table.table(name)))
    if default is None and not rows:
        raise top.fail(f"{key} has nothing in it")
    return rows


def _key(table: Table, folder: Folder, own: Options | None) -> Key:
    """A key; `own`: what the user's settings have in place of its options."""
    public = folder.inside(table, "public", table.text("public"))
    options = read_options(table, sign, folder, NOT_OF_KEYS)
    if own is not None:
        return Key(public, own, settings_file())
    if not options.rows:
        raise table.fail("signing-key, pkcs11 or signer-command is missing")
    return Key(public, options)


def _network(name: str, table: Table, folder: Folder, keys: dict[str, Key]) -> Network:
    kinds = [kind for kind in SOURCES if kind in table.rows]
    if len(kinds) != 1:
        what = f"where it comes from{'' if kinds else table.instead(*SOURCES)}"
        raise table.fail(what, f"one of {', '.join(SOURCES)}", listed(kinds) if kinds else None)
    command, words, count = SOURCES[kinds[0]]
    given = table.rows[kinds[0]]
    texts = table.texts(kinds[0]) if isinstance(given, list) else (table.text(kinds[0]),)
    if len(texts) != count:
        raise table.fail(kinds[0], "PARAM and BIN" if count == 2 else "one file", f"{len(texts)} of them")
    gpus = table.texts("gpus")
    if not gpus:
        raise table.fail(f"gpus is missing or empty{table.instead('gpus')}")
    record_on = table.take("record-on", str, "")
    for gpu in (*gpus, *([record_on] if record_on else [])):
        _known(table, "gpus", gpu, profile.names())
    if len(set(gpus)) != len(gpus):
        raise table.fail("gpus: one is named twice")
    key = table.take("key", str, next(iter(keys)) if len(keys) == 1 else "")
    _known(table, "key", key, keys)
    values, expected = _shared(table, "input"), _shared(table, "expect")
    ours = {
        "record": ("name", "gpu") if kinds[0] != "gpureplay" else ("name",),
        "build": ("gpu", "name"),
        "report": ("key", "input", "pdf", "decrypt-with"),
        "replay": ("key", "input", "expect", "firmware", "until", "dump", "compare", "each", "store", "entries"),
        "sign": (*(name[2:] for name, _ in keys[key].options.rows), "replace", "to-be-signed", "signature"),
    }
    commands = {
        "record": command,
        "build": build_command,
        "report": report_command,
        "replay": replay_command,
        "sign": sign,
    }
    options = {}
    for part in _TABLES:
        if part == "record" and command is None:
            continue
        called = " ".join(words) if part == "record" else ""
        options[part] = read_options(table.table(part, {}), commands[part], folder, ours[part], called)
    for part, command_of in (("report", report_command), ("replay", replay_command)):
        more = read_options(Table(values, table.where, ProjectError), command_of, folder)
        options[part] = Options((*options[part].rows, *more.rows))
    more = read_options(Table(expected, table.where, ProjectError), replay_command, folder)
    options["replay"] = Options((*options["replay"].rows, *more.rows))
    budgets = _budgets(table, TRACE_BUDGETS)
    table.end()
    paths = tuple(folder.inside(table, kinds[0], text) for text in texts)
    return Network(name, kinds[0], paths, gpus, record_on, key, options, bool(expected), budgets)


def _shared(table: Table, key: str) -> dict[str, Any]:
    """A table SLOT = FILE, if there is one, as an option's."""
    found = table.take(key, dict, {})
    return {key: found} if found else {}


def _target(name: str, table: Table, folder: Folder, networks: dict[str, Network]) -> Target:
    device = read_device(table, folder) if "device" in table.rows else None
    board: str | Path
    if device:
        gpu, board = device.says.gpu, ""
        found = device.says.board if isinstance(device.says.board, Board) else None
    else:
        gpu = table.text("gpu")
        _known(table, "gpu", gpu, profile.names())
        board, found = _board(table, folder)
    if found and not found.is_own:
        beside = Path(found.file).parent
        if code := [source for source in found.sources if (beside / source).exists()]:
            raise table.fail(f"board: {code[0]} is code of your own: run generate and make yourself")
    bare = isinstance(found, Board) and not found.runs_optee
    mine = tuple(row.name for row in networks.values() if gpu in row.gpus)
    wanted = table.texts("networks") if "networks" in table.rows else mine
    for network in wanted:
        _known(table, "networks", network, networks)
        if network not in mine:
            raise table.fail(
                f"networks: {network} is not for {gpu}", f"gpus with {gpu}", listed(networks[network].gpus)
            )
    image = table.take("image", bool, True)
    generate = read_options(table.table("generate", {}), generate_command, folder, ("gpu", "platform", "board"))
    flash = read_options(table.table("flash", {}), flash_command, folder, ("trace", "check", "key", "board"))
    budgets = _budgets(table, TARGET_BUDGETS)
    table.end()
    if not image and "image-bytes" in budgets:
        raise table.fail("budget: image-bytes, but image is false")
    if not bare and "firmware-bytes" in budgets:
        raise table.fail("budget: firmware-bytes, but make compiles bare-metal firmware only")
    has_image = image and found is not None
    return Target(name, gpu, board, bare, wanted, has_image, generate, flash, budgets, device)


def _board(table: Table, folder: Folder) -> tuple[str | Path, Board | None]:
    """The board of a target without a device file: as `generate` takes it, and what it is."""
    if ("platform" in table.rows) == ("board" in table.rows):
        raise table.fail("expected either platform, the name of one, or board, a description")
    if "platform" in table.rows:
        name = table.text("platform")
        _known(table, "platform", name, platforms.names())
        return name, boards.load(name) if name in boards.names() else None
    board = folder.inside(table, "board", table.text("board"))
    check_sources(table, folder, board)
    try:
        return board, boards.read(board)
    except GramophoneError as error:
        raise table.fail(f"board: {error}") from None


def _budgets(table: Table, names: Collection[str]) -> dict[str, int]:
    budget = table.table("budget", {})
    found = {name: budget.number(name, 1 << 63) for name in names if name in budget.rows}
    if budget.rows:
        left = min(budget.rows)
        raise budget.fail(f"unknown key {left}{meant(left, names)}", f"some of {', '.join(names)}")
    return found


def _known(table: Table, key: str, name: str, names: Collection[str]) -> None:
    if name not in names:
        raise table.fail(key, f"one of {listed(sorted(names), 20)}", f"{name!r}{meant(name, names)}")
