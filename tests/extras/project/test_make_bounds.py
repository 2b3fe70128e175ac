# SPDX-License-Identifier: BSD-2-Clause
"""Hostile project files: for each key that is a path or a program a row, and none without one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.commands.build import build_command
from host_tools.commands.flash import flash_command
from host_tools.commands.generate import generate_command
from host_tools.commands.replay import replay_command
from host_tools.commands.report import report_command
from host_tools.commands.sign import sign
from host_tools.demo import RAW
from host_tools.extras.project.commands import make
from host_tools.extras.project.commands.make_bounds import PROGRAMS, ProjectError
from host_tools.extras.project.commands.make_file import NOT_OF_KEYS, SOURCES, read_project
from host_tools.extras.project.commands.make_options import EVERYWHERE, takes_files
from host_tools.extras.project.commands.make_settings import settings_file
from host_tools.extras.project.commands.make_tasks import tasks_of
from host_tools.extras.project.tasks import graph
from host_tools.extras.project.tasks.graph import Done
from tests.support import json_schemas
from tests.support.places import CHECKOUT
from tests.support.replayer_samples import ES256
from trace_format.toml_table import Table

KEYS = '[keys.owner]\npublic = "pub.pem"\n'
KEY = KEYS + 'signing-key = "owner.pem"\n'
GPUS = 'gpus = ["v3d42"]\n'
RECORDING = '[networks.lenet]\nrecording = "lenet.raw.gtr"\n' + GPUS
TARGET = '[targets.virt]\ngpu = "v3d42"\nplatform = "qemu-virt"\n'
WHOLE = KEY + RECORDING + TARGET

# Keys of the project file's own: a project with a path PATH there.
PATHS = {
    "out": 'out = "PATH"\n' + WHOLE,
    "policy": 'policy = "PATH"\n' + WHOLE,
    "keys.*.public": KEY.replace("pub.pem", "PATH") + RECORDING,
    "networks.*.recording": WHOLE.replace("lenet.raw.gtr", "PATH"),
    "networks.*.ncnn": KEY + '[networks.lenet]\nncnn = ["lenet.param", "PATH"]\n' + GPUS,
    "networks.*.onnx": KEY + '[networks.lenet]\nonnx = "PATH"\n' + GPUS,
    "networks.*.pytorch": KEY + '[networks.lenet]\npytorch = "PATH"\n' + GPUS,
    "networks.*.gpureplay": KEY + '[networks.lenet]\ngpureplay = "PATH"\ngpus = ["mali_g71"]\n',
    "networks.*.input": KEY + RECORDING + 'input = { data = "PATH" }\n',
    "networks.*.expect": KEY + RECORDING + 'expect = { prob = "PATH" }\n',
    "targets.*.device": KEY + RECORDING + '[targets.virt]\ndevice = "PATH"\n',
    "targets.*.board": WHOLE.replace("platform", "board").replace("qemu-virt", "PATH"),
}
# Keys whose values are no paths, and tables whose own keys are looked at below.
NO_PATHS = {"targets.*.untested", "name", "keys", "networks", "targets"}
NO_PATHS |= {f"networks.*.{key}" for key in ("gpus", "key", "record-on")}
NO_PATHS |= {f"networks.*.{key}" for key in ("record", "build", "report", "replay", "sign", "budget")}
NO_PATHS |= {f"targets.*.{key}" for key in ("gpu", "platform", "networks", "image", "generate", "flash", "budget")}
# Options that are texts, but no paths and no programs; and types whose values are neither.
TEXTS = {"gpu", "network", "until", "snapshot", "open", "skip", "state", "passphrase-env"}
TEXTS |= {"platform", "device-id", "algorithm", "operator", "codec"}  # of a device file
TYPES = {
    "BoolParamType", "Choice", "DateTime", "DeviceId", "FloatParamType", "FloatRange", "IntRange", "Nonce",
    "IntParamType", "Positive", "Shape", "_Name",
}  # fmt: skip

# Tables of options: command, and a project up to where the table's one key stands as ROW.
TABLES: dict[str, tuple[click.Command, str]] = {
    "keys.*": (sign, KEYS + "ROW\n" + RECORDING),
    "networks.*.build": (build_command, KEY + RECORDING + "build = { ROW }\n"),
    "networks.*.sign": (sign, KEY + RECORDING + "sign = { ROW }\n"),
    "networks.*.report": (report_command, KEY + RECORDING + "report = { ROW }\n"),
    "networks.*.replay": (replay_command, KEY + RECORDING + "replay = { ROW }\n"),
    "targets.*.generate": (generate_command, WHOLE + "generate = { ROW }\n"),
    "targets.*.flash": (flash_command, WHOLE + "flash = { ROW }\n"),
} | {
    f"networks.*.record of {kind}": (
        command,
        PATHS[f"networks.*.{kind}"].replace("PATH", "inside") + "record = { ROW }\n",
    )
    for kind, (command, _, _) in SOURCES.items()
    if command
}


def options(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    """By the names that a project file has for them."""
    for option in command.params:
        if isinstance(option, click.Option) and not EVERYWHERE.intersection(name[2:] for name in option.opts):
            (name,) = (name[2:] for name in option.opts if name.startswith("--"))
            yield name, option


def is_path(option: click.Option) -> bool:
    return isinstance(option.type, click.Path) or takes_files(option)


ROWS = dict(PATHS)
PROGRAM_ROWS = {}
for _table, (_command, _text) in TABLES.items():
    for _name, _option in options(_command):
        if is_path(_option):
            _value = '{ x = "PATH" }' if takes_files(_option) else '"PATH"'
            ROWS[f"{_table}: {_name}"] = _text.replace("ROW", f"{_name} = {_value}")
        elif f"--{_name}" in PROGRAMS:
            PROGRAM_ROWS[f"{_table}: {_name}"] = _text.replace("ROW", f'{_name} = "PROGRAM"')
PROGRAM_ROWS["targets.*.generate: policy"] = ROWS["targets.*.generate: policy"].replace("PATH", "inside")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with links that lead out of it, and files beside it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder, outside = tmp_path / "project", tmp_path / "outside"
    for place in (folder / "deep/er", outside):
        place.mkdir(parents=True)
    for name in ("owner.pem", "pub.pem", "lenet.param", "inside"):
        (folder / name).touch()
    (folder / "lenet.raw.gtr").write_bytes(RAW.read_bytes())
    (outside / "x").write_text("a secret")
    (folder / "link").symlink_to("../outside/x")
    (folder / "linked").symlink_to(outside)
    (folder / "chain").symlink_to("linked/x")
    (folder / "dangling").symlink_to("../outside/not-there")
    (folder / "deep/er/x").symlink_to("../../../outside/x")
    return folder


def read(folder: Path, text: str) -> Any:
    file = folder / "gramophone.toml"
    file.write_text(text)
    return read_project(file)


# Where hostile paths lead: out by .., by a root, by links of files and folders, by one in a folder.
HOSTILE = (
    "../outside/x",
    "..",
    "/etc/passwd",
    "link",
    "linked/x",
    "chain",
    "dangling",
    "deep",
    "deep/../../outside/x",
)


def refusal(folder: Path, text: str) -> str:
    """What is said of a project; "" of one that is read."""
    try:
        read(folder, text)
    except ProjectError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("row", ROWS)
def test_paths_that_leave_the_folder_are_refused(row: str, project: Path) -> None:
    of_make = "make sets it itself" in refusal(project, ROWS[row].replace("PATH", "inside"))
    expected = "make sets it itself" if of_make else "expected a path in the project's folder"
    for path in HOSTILE:
        said = refusal(project, ROWS[row].replace("PATH", path))
        assert expected in said, path
        assert "a secret" not in said
    inside = refusal(project, ROWS[row].replace("PATH", "inside"))
    assert of_make or "project's folder" not in inside
    assert not (project / "out").exists()


def test_every_key_is_a_path_or_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new key fails here until it is looked at."""
    asked = set()
    take = Table.take

    def noted(table: Table, key: str, *more: Any) -> Any:
        asked.add(f"{table.where}.{key}".lstrip("."))
        return take(table, key, *more)

    monkeypatch.setattr(Table, "take", noted)
    board = TARGET.replace("platform", "board").replace("qemu-virt", "board.toml") + 'networks = ["lenet"]\n'
    (project / "board.toml").write_text('like = "qemu-virt"\ntitle = "x"\n')
    (project / "device.toml").write_text(
        'gpu = "v3d42"\nplatform = "qemu-virt"\nkey = "k.pem"\nprofile = "plain"\n'
    )
    (project / "k.pem").write_bytes(ES256.public.pem())
    device = PATHS["targets.*.device"].replace("PATH", "device.toml")
    others = (PATHS[key] for key in PATHS if key not in ("targets.*.board", "targets.*.device"))
    for text in (WHOLE, KEY + RECORDING + board, device, *others):
        read(project, text.replace("PATH", "inside"))
    named = {re.sub(r"^(keys|networks|targets)\.\w+", r"\1.*", key) for key in asked}
    found = {key for key in named if not re.search(r"\.budget\.", key)}
    found = {key for key in found if key.split(".")[0] in ("out", "policy", "keys", "networks", "targets", "name")}
    found -= {f"{table}.*" for table in ("keys", "networks", "targets")}
    assert found - PATHS.keys() - NO_PATHS == set()
    assert PATHS.keys() - found == set(), "no key is named so any more"


@pytest.mark.parametrize("table", TABLES)
def test_every_option_is_a_path_or_a_program_or_neither(table: str) -> None:
    """By its type; a text that is new fails here until it is looked at."""
    for name, option in options(TABLES[table][0]):
        if is_path(option) or f"--{name}" in PROGRAMS:
            continue
        kind = type(option.type).__name__
        assert kind in TYPES or (kind in ("StringParamType", "Pair") and name in TEXTS), f"{name}: {kind}"


def test_every_program_has_a_row() -> None:
    assert {f"--{row.rpartition(' ')[2]}" for row in PROGRAM_ROWS} == PROGRAMS.keys()


@pytest.mark.parametrize("row", PROGRAM_ROWS)
def test_programs_need_the_user_s_word(row: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    def run(*_: object, **__: object) -> list[Done]:
        started.append("tasks")
        return []

    monkeypatch.setattr(graph, "run", run)
    text = PROGRAM_ROWS[row].replace("PROGRAM", "pkcs11:object=x?module-path=/tmp/evil.so")
    if row.startswith("targets"):
        text = text.replace("qemu-virt", "optee")
    file = project / "gramophone.toml"
    file.write_text(text)
    option = row.rpartition(" ")[2]
    done = CliRunner().invoke(main, ["make", str(file)])
    assert (done.exit_code, started) == (2, [])
    assert f"{option} {PROGRAMS[f'--{option}']}: " in done.stderr
    assert "--allow-programs" in done.stderr
    assert not (project / "out").exists()

    done = CliRunner().invoke(main, ["make", str(file), "--dry-run", "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    json_schemas.check("make", said)
    (program,) = said["programs"]
    assert program["where"].endswith(f".{option}")
    assert program["source"] == str(file)
    shown = CliRunner().invoke(main, ["make", str(file), "--dry-run"]).output
    assert f"{PROGRAMS[f'--{option}']}: {program['what']} ({file}: " in shown

    monkeypatch.setattr(make, "results", lambda *_: {"project": "x", "traces": [], "targets": []})
    monkeypatch.setattr(make, "_lines", lambda *_: [])
    done = CliRunner().invoke(main, ["make", str(file), "--allow-programs"])
    assert (done.exit_code, started) == (0, ["tasks"]), done.output


def settings(text: str) -> Path:
    file = settings_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_the_user_s_settings_name_programs_and_files_anywhere(project: Path) -> None:
    file = settings(f'["{project}".keys.owner]\nsigner-command = "kms-sign"\n["/else".keys.x]\nhalf = 1\n')
    found = read(project, WHOLE)
    (program,) = found.programs
    assert (program.what, program.source, program.is_projects) == ("kms-sign", file, False)
    make._check_programs(found)
    sign_task = next(task for task in tasks_of(found) if task.name.endswith("/sign"))
    assert "--signing-key" not in sign_task.words
    outside = project.parent / "outside/x"
    settings(f'["{project}".keys.owner]\nsigning-key = "{outside}"\n')
    sign_task = next(task for task in tasks_of(read(project, KEYS + RECORDING)) if task.name.endswith("/sign"))
    assert list(sign_task.files.values()) == [outside]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = [", "not TOML"),
        ('["vision".keys.owner]\nhalf = 1\n', "expected the absolute path of its folder, found 'vision'"),
        ('["PROJECT"]\nkey = 1\n', "keys is missing"),
        ('["PROJECT".keys.owner]\n', "signing-key, pkcs11 or signer-command is missing"),
        ('["PROJECT".keys]\nowner = 1\n', "owner: expected a value of type dict"),
        ('["PROJECT".keys.ownr]\nsigning-key = "x"\n', "ownr: "),
        ('["PROJECT".keys.owner]\nreplace = true\n', "replace: no option of 'gramophone sign'"),
    ],
)  # fmt: skip
def test_malformed_settings(text: str, said: str, project: Path) -> None:
    file = settings(text.replace("PROJECT", str(project)))
    with pytest.raises(ProjectError) as caught:
        read(project, WHOLE)
    assert str(caught.value).startswith(f"{file}: ")
    assert said in str(caught.value)


def test_settings_in_the_project_do_not_count(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "config"))
    settings(f'["{project}".keys.owner]\nsigner-command = "evil"\n')
    with pytest.raises(ProjectError, match="expected settings outside the project"):
        read(project, WHOLE)


def test_names_are_no_options(project: Path) -> None:
    """Of files and of networks: `-oX` as a positional argument would be one."""
    (project / "--observe").write_bytes(b"")
    build = tasks_of(read(project, WHOLE.replace("lenet.raw.gtr", "--observe")))[0]
    assert build.words[:2] == ("build", "1---observe")
    with pytest.raises(ProjectError, match="'-o': a name: expected letters"):
        read(project, WHOLE.replace("networks.lenet", "networks.-o"))


def test_code_of_a_board_is_not_compiled(project: Path) -> None:
    """It could include any file, so it is refused; and not read through a link."""
    for name in ("my-board.toml", "my_board.c"):
        (project / name).write_bytes((CHECKOUT / "docs/your-board" / name).read_bytes())
    text = KEY + RECORDING + TARGET.replace("platform", "board").replace("qemu-virt", "my-board.toml")
    assert "board: my_board.c is code of your own: run generate and make yourself" in refusal(project, text)
    (project / "my_board.c").unlink()
    (project / "my_board.c").symlink_to("../outside/x")
    said = refusal(project, text)
    assert "board: expected a path in the project's folder" in said
    assert said.endswith("outside/x")


def test_options_of_keys_that_are_make_s_own_are_in_no_table() -> None:
    assert set(NOT_OF_KEYS) <= {name for name, _ in options(sign)}
