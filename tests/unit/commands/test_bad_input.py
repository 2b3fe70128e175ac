# SPDX-License-Identifier: BSD-2-Clause
"""Every command, every file that it takes, every way in which such a file can be bad: one sentence and status 2.

What needs the recording machine, or a replayer, is in tests/qemu/test_refusals.py.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.bad_input import (
    ANY,
    ATTESTATION,
    BAD_DEVICE_FILE,
    BOARD,
    DEVICE_KEY,
    DEVICE_SECRET,
    IN_TOTO,
    KEY,
    LOG_TAIL,
    LOGGED,
    NCNN_PARAM,
    NOISE,
    NOTHING,
    POLICY,
    PRIVATE_KEY,
    PUBLIC_KEY,
    REPLAY_LOG,
    SECRET,
    SIGNED_POLICY,
    SIGNED_TRACE,
    SUIT_ENVELOPE,
    TENSOR,
    TEXT,
    TRACE,
    TRUST_POLICY,
    TRUSTED,
    UNSIGNED,
    refused,
    working_folder,
)
from tests.support.commands import commands, split

# command line -> for each file in it, what is bad there
COMMANDS: dict[str, dict[str, dict[str, bytes]]] = {
    "build net.gtr -o out --param w=array.npy": {"net.gtr": UNSIGNED, "array.npy": TENSOR},
    "assemble net.txt -o out": {"net.txt": TEXT},
    "dump net.gtr": {"net.gtr": TRACE},
    "dump net.gtr --format text -o out": {"net.gtr": TRACE},
    "lint net.gtr": {"net.gtr": TRACE},
    "report net.sgtr --key pub.pem --no-run": {"net.sgtr": SIGNED_TRACE, "pub.pem": PUBLIC_KEY},
    "open net.gtr --key pub.pem --input x=array.npy --compare other.gtr --no-browser": {
        "net.gtr": TRACE,
        "pub.pem": PUBLIC_KEY,
        "array.npy": TENSOR,
        "other.gtr": TRACE,
    },
    "report net.gtr --input x=array.npy -o out": {"net.gtr": TRACE, "array.npy": TENSOR},
    "diff net.gtr other.gtr": {"net.gtr": TRACE, "other.gtr": TRACE},
    "key new -o out --passphrase-file horse.txt": {"horse.txt": SECRET},
    "key public key.pem -o out": {"key.pem": {**KEY, "locked": PRIVATE_KEY["locked"]}},
    "key show key.pem": {"key.pem": {**KEY, "locked": PRIVATE_KEY["locked"]}},
    "sign net.gtr --signing-key key.pem -o out": {"net.gtr": UNSIGNED, "key.pem": PRIVATE_KEY},
    "strip net.sgtr -o out": {"net.sgtr": SIGNED_TRACE},
    "encrypt net.gtr --for pub.pem -o out": {"net.gtr": TRACE, "pub.pem": PUBLIC_KEY},
    "decrypt net.gtr --decrypt-with key.pem -o out": {"net.gtr": TRACE, "key.pem": KEY},
    "sign net.gtr --signing-key locked.pem -o out --passphrase-file horse.txt": {"horse.txt": SECRET},
    "verify trace net.sgtr --key pub.pem": {"net.sgtr": SIGNED_TRACE, "pub.pem": PUBLIC_KEY},
    "verify trace net.sgtr --key fleet.gtp": {"fleet.gtp": TRUSTED},
    "sign net.gtr --trust-policy fleet.gtp --signing-key key.pem -o out": {"fleet.gtp": SIGNED_POLICY},
    "sign net.gtr --public-key pub.pem --signature horse.txt -o out": {
        "pub.pem": PUBLIC_KEY,
        "horse.txt": ANY,
        "net.gtr": UNSIGNED,
    },
    "policy init x --root pub.pem --trace-key pub.pem -o out": {"pub.pem": PUBLIC_KEY},
    "policy allow fleet.gtp x --key pub.pem": {"fleet.gtp": TRUST_POLICY, "pub.pem": PUBLIC_KEY},
    "policy add-key fleet.gtp pub.pem --role root": {"fleet.gtp": TRUST_POLICY, "pub.pem": PUBLIC_KEY},
    "policy revoke fleet.gtp 00": {"fleet.gtp": SIGNED_POLICY},
    "policy rotate fleet.gtp 00 pub.pem": {"fleet.gtp": TRUST_POLICY, "pub.pem": PUBLIC_KEY},
    "policy threshold fleet.gtp 1 --role root": {"fleet.gtp": SIGNED_POLICY},
    "policy expire fleet.gtp never": {"fleet.gtp": SIGNED_POLICY},
    "policy drop fleet.gtp": {"fleet.gtp": SIGNED_POLICY},
    "policy show fleet.gtp": {"fleet.gtp": TRUST_POLICY},
    "policy sign fleet.gtp --signing-key key.pem": {"fleet.gtp": TRUST_POLICY, "key.pem": PRIVATE_KEY},
    "policy publish fleet.gtp -o out": {"fleet.gtp": SIGNED_POLICY},
    "publish provenance net.sgtr --signing-key key.pem -o out": {"net.sgtr": TRACE, "key.pem": PRIVATE_KEY},
    "publish provenance net.sgtr --statement net.intoto.jsonl --signing-key key.pem -o out": {
        "net.intoto.jsonl": IN_TOTO
    },
    "publish provenance net.sgtr --source horse.txt --signing-key key.pem -o out": {"horse.txt": ANY},
    "verify provenance net.intoto.jsonl --trace net.sgtr --key pub.pem": {
        "net.intoto.jsonl": IN_TOTO,
        "net.sgtr": TRACE,
        "pub.pem": PUBLIC_KEY,
    },
    "verify trace net.sgtr --key pub.pem --transparency proof.json --transparency-key eddsa.pem": {
        "proof.json": LOGGED,
        "eddsa.pem": PUBLIC_KEY,
    },
    "publish suit export net.sgtr --vendor example.com --signing-key key.pem -o out": {
        "net.sgtr": SIGNED_TRACE,
        "key.pem": PRIVATE_KEY,
    },
    "publish suit import net.suit --key pub.pem -o out": {"net.suit": SUIT_ENVELOPE, "pub.pem": PUBLIC_KEY},
    "enrol --secret device.secret -o out": {"device.secret": DEVICE_SECRET},
    "verify log a.log --log-key log.key --tail a.tail --trace net.sgtr": {
        "a.log": REPLAY_LOG,
        "log.key": DEVICE_SECRET,
        "a.tail": LOG_TAIL,
        "net.sgtr": TRACE,
    },
    "verify log a.log --attestation a.cbor --key pub.pem --nonce 0001020304050607": {
        "a.log": REPLAY_LOG,
        "a.cbor": ATTESTATION,
        "pub.pem": PUBLIC_KEY,
    },
    # Damaged logs and keys of devices are findings: tests/extras/fleet/test_watch.py.
    "fleet . --devices . --trace net.sgtr --trust-policy fleet.gtp": {
        "net.sgtr": TRACE,
        "fleet.gtp": TRUST_POLICY,
    },
    "verify attestation a.cbor --key pub.pem --nonce 0001020304050607 --firmware-image a.bin --trace net.gtr": {
        "a.cbor": ATTESTATION,
        "pub.pem": PUBLIC_KEY,
        "net.gtr": TRACE,
        "a.bin": ANY,
    },
    "generate device.toml -o out": {"device.toml": BAD_DEVICE_FILE},
    "generate --gpu v3d42 --platform qemu-virt --key pub.pem -o out": {"pub.pem": DEVICE_KEY},
    "generate --gpu v3d42 --board my.toml --policy my.h --key pub.pem -o out": {"my.toml": BOARD, "my.h": POLICY},
    **{
        f"replay net.sgtr --key pub.pem --input x=array.npy --on {runner}": {
            "net.sgtr": SIGNED_TRACE,
            "pub.pem": DEVICE_KEY,
            "array.npy": TENSOR,
        }
        for runner in ("vgpu", "unicorn", "qemu")
    },
    "chat net.sgtr --key pub.pem --prompt hello": {"net.sgtr": SIGNED_TRACE, "pub.pem": DEVICE_KEY},
    "replay net.sgtr --key pub.pem --param w=array.npy --expect y=other.npy --top 1 --labels horse.txt": {
        "array.npy": TENSOR,
        "other.npy": TENSOR,
        "horse.txt": {"too few": b"", "not text": b"\xff\n" * 6},
    },
    "speed time net.gtr": {"net.gtr": TRACE},
    "sharing simulate net.gtr": {"net.gtr": TRACE},  # files of requests: tests/vgpu/test_simulate.py
    "sharing join net.gtr other.gtr -o out": {"net.gtr": TRACE, "other.gtr": TRACE},
    "speed calibrate net.gtr=array.npy -o out": {"array.npy": NOTHING},  # more: tests/vgpu/test_calibrate.py
    "bench net.sgtr --key pub.pem --input x=array.npy": {
        "net.sgtr": SIGNED_TRACE,
        "pub.pem": DEVICE_KEY,
        "array.npy": TENSOR,
    },
    # Firmware itself: tests/unit/audit_firmware/test_audit_firmware.py.
    "audit-firmware net.gtr --key pub.pem --board my.toml": {"pub.pem": DEVICE_KEY, "my.toml": BOARD},
    "publish sbom -o out": {},  # its folder: tests/extras/publish/test_sbom.py
    # Images, and what they are made of: tests/emulated/test_flash.py.
    "flash --check net.gtr --key pub.pem": {"pub.pem": DEVICE_KEY},
    "record ncnn net.param net.bin --shape data=1x2x3 -o out": {"net.param": NCNN_PARAM, "net.bin": NOTHING},
    "record run -o out --file horse.txt -- net.bin": {"net.bin": NOTHING, "horse.txt": NOTHING},
    "record pi-kit net.param net.bin --shape data=1x2x3 -o out": {"net.param": NCNN_PARAM, "net.bin": NOTHING},
    "record self-test launch -o out": {},
    "record pi net.bin -o out": {"net.bin": {"no archive": b"no archive"}},  # more: test_board.py
    # More: tests/qemu/test_frontends.py.
    "record onnx net.bin -o out": {"net.bin": NOTHING},
    "record pytorch net.bin --shape in0=1x2 -o out": {"net.bin": NOTHING},
    "record gguf net.bin -o out": {"net.bin": NOTHING},
    "record tflite net.bin --shape in0=1x2 -o out": {"net.bin": NOTHING},
    "record layers": {},
    "check net.param net.bin --shape data=1x2x3": {"net.param": NCNN_PARAM, "net.bin": NOTHING},
}
# Their files: test_gpureplay.py; test_inspect.py; test_lint.py; test_tuf.py;
# tests/vgpu/test_make.py; tests/extras/bringup/test_bad_files.py. The others take none.
NOT_HERE = ("import", "inspect", "cache", "make", "manual", "publish tuf", "prove", "bringup", "try-gpu")

CASES = [
    pytest.param(line, name, content, id=f"{line} | {name} {what}")
    for line, files in COMMANDS.items()
    for name, bad in files.items()
    for what, content in {"missing": None, "a folder": "folder", **bad}.items()
]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for _ in working_folder(tmp_path, monkeypatch):
        yield


@pytest.mark.sampled(400)
@pytest.mark.parametrize(("line", "name", "content"), CASES)
def test_a_bad_file_is_named(line: str, name: str, content: bytes | str | None) -> None:
    bad = Path(f"BAD{Path(name).suffix}")
    if content == "folder":
        bad.mkdir()
    elif isinstance(content, bytes):
        bad.write_bytes(content)
    page = line.startswith("report ") and name == "net.gtr" and isinstance(content, bytes)
    sentence = refused(shlex.split(line.replace(name, str(bad))), "out" if page else "")
    assert sentence.startswith(f"{bad}"), sentence
    if content is None:
        assert sentence == f"{bad}: No such file or directory"
    elif content == "folder":
        takes_folders = "--file" in line and bad.suffix == ".txt"
        assert sentence == f"{bad}: {'a folder without files' if takes_folders else 'Is a directory'}"
    elif name.endswith("gtr"):
        assert " at offset 0x" in sentence


@pytest.mark.sampled(60)
@pytest.mark.parametrize(
    "line", [line for line in COMMANDS if " -o out" in line and not line.startswith(("generate", "enrol"))]
)
@pytest.mark.parametrize(
    ("output", "reason"),
    {
        "gone/out": "No such file or directory",
        "net.gtr/out": "Not a directory",
        ".": "not a regular file",
        "/proc/out": "No such file or directory",  # a folder where even root cannot write
    }.items(),
)
def test_an_output_that_cannot_be_written(line: str, output: str, reason: str) -> None:
    assert refused(shlex.split(line.replace("-o out", f"-o {output}"))) == f"{output}: {reason}"


OVERWRITING = [
    *(
        line.replace("-o out", f"-o {name}")
        for line, files in COMMANDS.items()
        for name in files
        if " -o out" in line
    ),
    "sign net.gtr --signing-key key.pem -o LINK",
    "sign net.gtr --signing-key key.pem -o SAME",
    "sign net.sgtr --replace --signing-key key.pem -o key.pem",
    "build net.gtr -o ./net.gtr",
    "speed calibrate net.gtr=array.npy -o net.gtr",
    "speed calibrate net.gtr=array.npy -o array.npy",
    "replay net.sgtr --key pub.pem --input x=array.npy --output y=array.npy",
    "replay net.sgtr --key pub.pem --output y=net.sgtr",
    "flash out -o net.sgtr --trace net.sgtr",
]


@pytest.mark.parametrize("line", OVERWRITING)
def test_no_command_writes_over_what_it_reads(line: str) -> None:
    Path("LINK").symlink_to("net.gtr")
    Path("SAME").hardlink_to("net.gtr")
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    output = line.split("-o " if " -o " in line else "--output y=")[1].split()[0]
    assert refused(shlex.split(line)) == f"{Path(output)}: the output is one of the files that are read"
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("generate --gpu v3d42 --platform optee --key pub.pem --key pub.pem -o out", "--key"),
        ("generate --gpu v3d42 --gpu mali_g71 --platform optee --key pub.pem -o out", "--gpu"),
        ("sign net.gtr --signing-key key.pem -o out --output other", "-o / --output"),
        ("build net.gtr -o out --name=a --name b", "--name"),
        ("replay net.sgtr --key pub.pem --on vgpu --on qemu", "--on"),
    ],
)
def test_an_option_with_one_value_is_given_once(line: str, option: str) -> None:
    assert refused(shlex.split(line)).startswith(f"{option} is given twice and takes one value (see ")
    assert not Path("out").exists()


@pytest.mark.parametrize("option", ["", "--on qemu"])
def test_an_output_of_replay_that_cannot_be_written(option: str) -> None:
    line = f"replay net.sgtr --key pub.pem --output y=gone/y.npy {option}"
    assert refused(shlex.split(line)) == "gone/y.npy: No such file or directory"


FIRMWARE: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "a file": lambda path: path.write_bytes(NOISE),
    "without an ELF": lambda path: path.mkdir(),
    "with an empty ELF": lambda path: in_folder(path, b""),
    "with noise": lambda path: in_folder(path, NOISE),
    "with the start of an ELF": lambda path: in_folder(path, b"\x7fELF\x02\x01\x01" + bytes(9)),
    "with an ELF of noise": lambda path: in_folder(path, b"\x7fELF\x02\x01\x01" + bytes(9) + NOISE),
}


def in_folder(path: Path, content: bytes) -> None:
    path.mkdir()
    for name in ("firmware.elf", "firmware.bin"):
        (path / name).write_bytes(content)


@pytest.mark.parametrize("runner", ["unicorn", "qemu"])
@pytest.mark.parametrize("what", FIRMWARE)
def test_firmware_that_is_none(runner: str, what: str) -> None:
    FIRMWARE[what](Path("BAD"))
    line = f"replay net.sgtr --key pub.pem --on {runner} --firmware BAD"
    assert refused(shlex.split(line)).startswith("BAD/firmware.elf")


def test_all_commands_are_here() -> None:
    here = {" ".join(split(shlex.split(line))[0]) for line in COMMANDS}
    assert here == {words for words, _ in commands() if not words.startswith(NOT_HERE)}
    for line, files in COMMANDS.items():
        words = shlex.split(line)
        named = {word.rpartition("=")[2] for word in words}
        assert files.keys() <= named
