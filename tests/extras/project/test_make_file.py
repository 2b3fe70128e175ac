# SPDX-License-Identifier: BSD-2-Clause
"""gramophone.toml: what it says, which tasks that gives, and a sentence for everything that is wrong in one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.extras.project.commands.make_bounds import ProjectError
from host_tools.extras.project.commands.make_file import SOURCES, read_project
from host_tools.extras.project.commands.make_tasks import SECRET, tasks_of

KEYS = """\
[keys.owner]
signing-key = "owner.pem"
public = "pub.pem"
"""
NETWORK = """\
[networks.lenet]
recording = "lenet.raw.gtr"
gpus = ["v3d42"]
"""
TARGET = """\
[targets.virt]
gpu = "v3d42"
platform = "qemu-virt"
"""
TASKS = ("build", "sign", "report", "sbom", "replay", "generate", "flash")
WHOLE = KEYS + NETWORK + TARGET


def write(folder: Path, text: str) -> Path:
    file = folder / "gramophone.toml"
    file.write_text(text)
    return file


def words(folder: Path, text: str) -> dict[str, str]:
    """Command line of each task."""
    return {task.name: " ".join(task.words) for task in tasks_of(read_project(write(folder, text)))}


def test_a_project_gives_tasks(tmp_path: Path) -> None:
    assert words(tmp_path, WHOLE) == {
        "lenet.v3d42/build": "build lenet.raw.gtr -o lenet.gtr --gpu v3d42 --name lenet",
        "lenet.v3d42/sign": "sign lenet.gtr -o lenet.sgtr --signing-key owner.pem",
        "lenet.v3d42/report": "report lenet.sgtr -o report.html --key pub.pem",
        "lenet.v3d42/sbom": "publish sbom lenet.sgtr -o lenet.cdx.json",
        "virt/generate": "generate --platform qemu-virt --gpu v3d42 -o firmware --key pub.pem",
        "virt/make": "make -C firmware",
        "virt/sbom": "publish sbom firmware -o firmware.cdx.json",
        "virt/flash": "flash firmware -o image/virt.img --trace lenet.sgtr",
    }


def test_private_keys_stay_on_this_computer(tmp_path: Path) -> None:
    """Each option that reads one, and each task that reads a result with one in it."""
    for name in ("fleet.pem", "device.pem", "x.npy"):
        (tmp_path / name).touch()

    def here(text: str) -> set[str]:
        return {task.name for task in tasks_of(read_project(write(tmp_path, text))) if task.here}

    assert here(WHOLE) == {"lenet.v3d42/sign"}
    firmware = {"virt/generate", "virt/make", "virt/sbom", "virt/flash"}
    fleet = 'generate = { fleet-key = "fleet.pem" }\n'
    assert here(WHOLE + fleet) == {"lenet.v3d42/sign", *firmware}
    optee = TARGET.replace("qemu-virt", "optee")
    assert here(KEYS + NETWORK + optee + 'flash = { ta-signing-key = "fleet.pem" }\n') == {
        "lenet.v3d42/sign",
        "virt/flash",
    }
    more = """\
expect = { prob = "x.npy" }
replay = { decrypt-with = ["device.pem"] }
"""
    assert here(KEYS + NETWORK + more) == {f"lenet.v3d42/{what}" for what in ("sign", "replay")}


def test_options_that_read_private_keys_are_known() -> None:
    """Of commands whose tasks may be done elsewhere, whatever is added to them."""
    commands = [main.get_command(click.Context(main), name) for name in TASKS if name != "sign"]
    commands += [command for command, _, _ in SOURCES.values() if command]
    found = {
        option.opts[0]
        for command in commands
        if command
        for option in command.params
        if isinstance(option, click.Option)
        and re.search(r"[Pp]rivate key|with the secret|PIN|passphrase", option.help or "")
    }
    assert found == SECRET


def test_options_are_those_of_the_commands(tmp_path: Path) -> None:
    more = """\
build = { security-version = 3, skip = ["timeouts"], observe = true, keep-inputs = false }
input = { data = "in/digit.npy" }
expect = { prob = "out/digit.npy" }
replay = { on = "unicorn", tolerance = 1e-3 }
report = { param = "weights" }
"""
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "fc1.npy").touch()
    found = words(tmp_path, KEYS + NETWORK + more)
    options = "--security-version 3 --skip timeouts --observe"
    assert found["lenet.v3d42/build"] == f"build lenet.raw.gtr -o lenet.gtr --gpu v3d42 --name lenet {options}"
    assert found["lenet.v3d42/replay"] == (
        "replay lenet.sgtr --key pub.pem --on unicorn --tolerance 0.001 --input data=digit.npy "
        "--expect prob=2-digit.npy"
    )
    assert found["lenet.v3d42/report"].endswith("--key pub.pem --param fc1=fc1.npy --input data=digit.npy")
    task = next(task for task in tasks_of(read_project(tmp_path / "gramophone.toml")) if "replay" in task.name)
    assert task.files["digit.npy"] == tmp_path / "in/digit.npy"
    assert task.files["2-digit.npy"] == tmp_path / "out/digit.npy"


def test_sources_targets_and_policies(tmp_path: Path) -> None:
    text = """\
policy = "fleet.gtp"
[keys.a]
pkcs11 = "pkcs11:token=owner;object=net"
public = "a.pem"
[keys.b]
signing-key = "b.pem"
public = "b.pub"
[networks.one]
ncnn = ["one.param", "one.bin"]
record-on = "mali_g52r1"
record = { shape = { data = "1x28x28" }, fp16 = true }
gpus = ["mali_g52r1", "mali_g71"]
key = "b"
[networks.two]
onnx = "two.onnx"
gpus = ["v3d42"]
key = "a"
[networks.three]
gpureplay = "mnist"
record = { recorded-network = "mnist" }
gpus = ["mali_g71"]
key = "a"
[targets.board]
gpu = "mali_g71"
platform = "optee"
networks = ["one"]
[targets.host]
gpu = "v3d42"
platform = "linux"
"""
    found = words(tmp_path, text)
    record = "record ncnn one.param one.bin -o one.raw.gtr --name one --gpu mali_g52r1 --shape data=1x28x28 --fp16"
    assert found["one.mali_g52r1/record"] == record
    assert "one.mali_g71/record" not in found, "recorded once"
    assert found["two.v3d42/record"] == "record onnx two.onnx -o two.raw.gtr --name two --gpu v3d42"
    assert found["three.mali_g71/record"] == (
        "import gpureplay mnist -o three.raw.gtr --name three --recorded-network mnist"
    )
    assert found["two.v3d42/sign"].endswith("--pkcs11 pkcs11:token=owner;object=net")
    assert found["two.v3d42/report"].endswith("--key fleet.gtp")
    assert found["board/generate"].endswith("--key fleet.gtp")
    assert "board/make" not in found
    assert found["board/flash"] == "flash firmware -o image/board.img --trace one.sgtr"
    assert "host/flash" not in found


BAD = {
    "no TOML": ("name = x\n", "not TOML: Invalid value (at line 1"),
    "empty": ("", "keys is missing"),
    "no key": ("[keys]\n" + NETWORK, "keys has nothing in it"),
    "no network": (KEYS, "networks is missing"),
    "unknown key": ("nmae = 'x'\n" + WHOLE, "unknown keys nmae (did you mean 'name'?)"),
    "unknown table": (WHOLE + "[target.x]\n", "unknown keys target (did you mean 'targets'?)"),
    "misspelt table": (WHOLE.replace("[keys", "[keyz"), "keys is missing (is it 'keyz', misspelt?)"),
    "misspelt GPUs": (WHOLE.replace("gpus", "gpsu"), "gpus is missing or empty (is it 'gpsu', misspelt?)"),
    "misspelt source": (
        WHOLE.replace("recording", "recoding"),
        "networks.lenet: where it comes from (is it 'recoding', misspelt?): expected one of ncnn",
    ),
    "misspelt option of a recording": (
        WHOLE.replace('recording = "', 'record = { compilr = "ncnn" }\nonnx = "'),
        "networks.lenet.record: compilr: no option of 'gramophone record onnx' (did you mean 'compiler'?)",
    ),
    "number for a text": ("name = 1\n" + WHOLE, "name: expected a value of type str, found 1"),
    "out is the project": ("out = '.'\n" + WHOLE, "out: expected a folder of its own"),
    "out is above": ("out = '..'\n" + WHOLE, "out: expected a path in the project's folder"),
    "out is git's": ("out = '.git'\n" + WHOLE, "out: expected a folder of its own"),
    "name is a path": (KEYS + NETWORK.replace("lenet]", '"../x"]'), "networks: '../x': a name: expected letters"),
    "name twice": (WHOLE.replace("virt]", "lenet]"), "targets.lenet: a network has this name, too"),
    "key without signer": (WHOLE.replace('signing-key = "owner.pem"\n', ""), "keys.owner: signing-key, pkcs11 or"),
    "key without public": (WHOLE.replace('public = "pub.pem"\n', ""), "keys.owner: public is missing"),
    "misspelt option of a key": (
        WHOLE.replace("signing-key", "siging-key"),
        "keys.owner: siging-key: no option of 'gramophone sign' (did you mean 'signing-key'?)",
    ),
    "no source": (WHOLE.replace("recording", "x"), "networks.lenet: where it comes from: expected one of"),
    "two sources": (WHOLE.replace("gpus", 'onnx = "x"\ngpus'), "where it comes from: expected one of ncnn, onnx"),
    "half a network": (
        WHOLE.replace("recording", "ncnn"),
        "lenet: ncnn: expected PARAM and BIN, found 1",
    ),
    "no GPU": (WHOLE.replace('gpus = ["v3d42"]\n', ""), "networks.lenet: gpus is missing or empty"),
    "unknown GPU": (
        WHOLE.replace('["v3d42"]', '["v3d24"]'),
        "networks.lenet: gpus: expected one of",
    ),
    "GPU twice": (WHOLE.replace('["v3d42"]', '["v3d42", "v3d42"]'), "networks.lenet: gpus: one is named twice"),
    "unknown signer": (WHOLE.replace("gpus", 'key = "onwer"\ngpus'), "found 'onwer' (did you mean 'owner'?)"),
    "unknown option": (
        WHOLE.replace("gpus", "build = { obserfe = true }\ngpus"),
        "networks.lenet.build: obserfe: no option of 'gramophone build' (did you mean 'observe'?)",
    ),
    "option of ours": (
        WHOLE.replace("gpus", "build = { gpu = 'v3d71' }\ngpus"),
        "networks.lenet.build: gpu: no option of 'gramophone build': make sets it itself",
    ),
    "output as an option": (
        WHOLE.replace("gpus", "build = { output = 'x' }\ngpus"),
        "networks.lenet.build: output: no option of",
    ),
    "value that the command refuses": (
        WHOLE.replace("gpus", "build = { security-version = -1 }\ngpus"),
        "networks.lenet.build: Invalid value for '--security-version': -1 is not in the range",
    ),
    "flag that is no flag": (
        WHOLE.replace("gpus", "build = { observe = 'yes' }\ngpus"),
        "networks.lenet.build: observe: expected true or false, found 'yes'",
    ),
    "list for one value": (
        WHOLE.replace("gpus", "build = { security-version = [3] }\ngpus"),
        "networks.lenet.build: security-version: expected a text or a number, found [3]",
    ),
    "folder without tensors": (
        WHOLE.replace("gpus", "report = { param = 'none' }\ngpus"),
        "networks.lenet.report: param: expected SLOT = FILE, or a folder of SLOT.npy files, found 'none'",
    ),
    "record of a recording": (WHOLE.replace("gpus", "record = { fp16 = true }\ngpus"), "unknown keys record"),
    "unknown budget": (
        WHOLE.replace("gpus", "budget = { trace-byte = 1 }\ngpus"),
        "networks.lenet.budget: unknown key trace-byte (did you mean 'trace-bytes'?): expected some of",
    ),
    "budget below zero": (
        WHOLE.replace("gpus", "budget = { jobs = -1 }\ngpus"),
        "budget: jobs: expected 0",
    ),
    "budget of a truth": (
        WHOLE.replace("gpus", "budget = { jobs = true }\ngpus"),
        "jobs: expected a value of type int",
    ),
    "no board": (
        WHOLE.replace("platform", "platfrom"),
        "targets.virt: expected either platform, the name",
    ),
    "unknown board": (WHOLE.replace("qemu-virt", "qemu-vrit"), "found 'qemu-vrit' (did you mean 'qemu-virt'?)"),
    "network for another GPU": (
        KEYS + NETWORK + TARGET.replace("v3d42", "v3d71") + 'networks = ["lenet"]\n',
        "targets.virt: networks: lenet is not for v3d71: expected gpus with v3d71, found v3d42",
    ),
    "unknown network": (WHOLE + 'networks = ["lent"]\n', "found 'lent' (did you mean 'lenet'?)"),
    "budget of an image that is none": (
        WHOLE + "image = false\nbudget = { image-bytes = 1 }\n",
        "targets.virt: budget: image-bytes, but image is false",
    ),
    "several keys, and none for devices": (
        WHOLE.replace("gpus", 'key = "owner"\ngpus') + KEYS.replace("owner]", "other]"),
        "targets.virt.generate: key is missing",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said(name: str, tmp_path: Path) -> None:
    text, message = BAD[name]
    file = write(tmp_path, text)
    with pytest.raises(ProjectError) as caught:
        tasks_of(read_project(file))
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)
    done = CliRunner().invoke(main, ["make", str(file), "--json"])
    assert done.exit_code == 2
    assert json.loads(done.stdout) == {"ok": False, "error": str(caught.value)}
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["make"])
    assert (done.exit_code, done.stderr) == (2, "error: gramophone.toml: No such file or directory\n")
    write(tmp_path, WHOLE)
    done = CliRunner().invoke(main, ["make", "--dry-run"])
    assert done.exit_code == 2
    assert "lenet.v3d42/build: lenet.raw.gtr: No such file or directory" in done.stderr
