# SPDX-License-Identifier: BSD-2-Clause
"""Every command, every file that it takes, every way in which such a file can be bad: one sentence and status 2.

What needs the recording machine, or a replayer, is in tests/qemu/test_refusals.py.
"""

from __future__ import annotations

import io
import json
import random
import shlex
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from signing import keys
from signing.sign import sign_trace
from tests.support.signing_samples import EDDSA, ES256
from trace_format.actions import MAP_READ, MAP_WRITE, Op, action, array_of
from trace_format.schema import PAGE_BYTES, DType, SlotKind
from trace_format.trace import Slot, Trace

SHAPE = (2, 3)
STRIDES = (12, 4)
VERSION_OFFSET = 8  # of a trace's header and of a signed trace's


def trace() -> bytes:
    """A valid raw trace with a slot of each kind."""
    kinds = {"x": SlotKind.INPUT, "w": SlotKind.PARAMETER, "y": SlotKind.OUTPUT}
    slots = [
        Slot(name, kind, DType.FLOAT32, SHAPE, STRIDES, 64 * index, 0, True)
        for index, (name, kind) in enumerate(kinds.items())
    ]
    rows = [
        action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=1, frame=8, address_space=0, va_page=0),
        action(Op.REPLAY_START),
        action(Op.COPY_TO_GPU, slot=0),
        action(Op.COPY_TO_GPU, slot=1),
        action(Op.JOB),
        action(Op.COPY_FROM_GPU, slot=2),
    ]
    image = bytes(range(256))
    size = 16 * PAGE_BYTES
    return Trace("v3d42", array_of(rows), image, size, size, slots, meta={"name": "bad"}, raw=True).build()


def npy(array: object) -> bytes:
    """Bytes of a .npy file."""
    file = io.BytesIO()
    np.save(file, np.asarray(array))
    return file.getvalue()


def npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, a=np.zeros(3))
    return file.getvalue()


def npy_header(text: str) -> bytes:
    """A .npy file of version 1.0 with this text as header, and some data."""
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(24)


def changed(data: bytes, offset: int, value: int) -> bytes:
    return data[:offset] + bytes([value]) + data[offset + 1 :]


RAW = trace()
SIGNED = sign_trace(RAW, ES256)
PRIVATE, PUBLIC = keys.private_pem(ES256.key), ES256.public.pem()
ARRAY = npy(np.zeros(SHAPE, np.float32))
PARAM = b"7767517\n2 2\nInput data 0 1 data\nReLU out 1 1 data out\n"
NOISE = random.Random(7).randbytes(5000)

GOOD = {
    "net.gtr": RAW,
    "net.sgtr": SIGNED,
    "key.pem": PRIVATE,
    "pub.pem": PUBLIC,
    "array.npy": ARRAY,
    "my.toml": b'like = "optee"',
    "my.h": b"policy_clients policy_traces POLICY_STORAGE",
    "horse.txt": b"horse\n",
    "net.param": PARAM,
    "net.bin": bytes(64),
}

ANY = {"empty": b"", "random": NOISE, "zeros": bytes(5000), "text": b"hello\n", "an archive": npz()}
TRACE = {
    **ANY,
    "one byte": RAW[:1],
    "cut in the header": RAW[:50],
    "cut in the head": RAW[:400],
    "cut in the body": RAW[:-16],
    "too long": RAW + bytes(16),
    "wrong version": changed(RAW, VERSION_OFFSET, 9),
    "damaged body": changed(RAW, len(RAW) - 20, RAW[-20] ^ 1),
    "cut, signed": SIGNED[:-1],
    "wrong version, signed": changed(SIGNED, VERSION_OFFSET, 9),
    "a key": PRIVATE,
    "an array": ARRAY,
}
UNSIGNED = {**TRACE, "signed": SIGNED}
SIGNED_TRACE = {
    **ANY,
    "cut in the header": SIGNED[:20],
    "cut in the envelope": SIGNED[:100],
    "cut in the body": SIGNED[:-1],
    "too long": SIGNED + b"\0",
    "wrong version": changed(SIGNED, VERSION_OFFSET, 9),
    "not signed": RAW,
    "a key": PRIVATE,
    "an array": ARRAY,
}
KEY = {
    **ANY,
    "truncated": PRIVATE[: len(PRIVATE) // 2],
    "damaged": PRIVATE.replace(b"M", b"N"),
    "two of them": PRIVATE + PUBLIC,
    "a trace": RAW,
    "an array": ARRAY,
    "only the frame": b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n",
}
PRIVATE_KEY = {**KEY, "public": PUBLIC, "locked": keys.private_pem(ES256.key, b"horse")}
PUBLIC_KEY = {**KEY, "private": PRIVATE, "damaged, public": PUBLIC.replace(b"M", b"N")}
DEVICE_KEY = {**PUBLIC_KEY, "EdDSA": EDDSA.public.pem()}
TENSOR = {
    **ANY,
    "truncated": ARRAY[:-1],
    "cut in the header": ARRAY[:40],
    "cut in the magic": ARRAY[:3],
    "wrong version": changed(ARRAY, 6, 9),
    "wrong shape": npy(np.zeros((3, 2), np.float32)),
    "a number": npy(np.float32(1)),
    "too many dimensions": npy(np.zeros((1, 2, 3, 1), np.float32)),
    "wrong type": npy(np.zeros(SHAPE, np.float64)),
    "wrong byte order": npy(np.zeros(SHAPE, ">f4")),
    "objects": npy(np.array([[None] * 3] * 2, dtype=object)),
    "a record": npy(np.zeros(SHAPE, [("a", "f4")])),
    "huge": npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1048576), }\n"),
    "overflowing": npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2**70,), }\n"),
    "open brackets": npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (((((((2, 3), }\n"),
    "no type": npy_header("{'descr': 'nonsense', 'fortran_order': False, 'shape': (2, 3), }\n"),
    "negative": npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3), }\n"),
    "not a dictionary": npy_header("[" * 500 + "\n"),
    "a trace": RAW,
}
SECRET = {"empty": b"", "only a line end": b"\n"}
NCNN_PARAM = {
    **ANY,
    "truncated": PARAM[:5],
    "only the magic": PARAM[:8],
    "wrong version": PARAM.replace(b"7767517", b"7767518"),
    "binary form": (7767517).to_bytes(4, "little") + bytes(60),
    "a trace": RAW,
}
BOARD = {"empty": b"", "not TOML": b"[", "not text": b"\xff", "like nothing": b"like = 1", "noise": NOISE}
POLICY = {"empty": b"", "noise": NOISE}
NOTHING: dict[str, bytes] = {}  # any content is accepted, or checked elsewhere

# command line -> for each file in it, what is bad there
COMMANDS: dict[str, dict[str, dict[str, bytes]]] = {
    "build net.gtr -o out --param w=array.npy": {"net.gtr": UNSIGNED, "array.npy": TENSOR},
    "dump net.gtr": {"net.gtr": TRACE},
    "diff net.gtr other.gtr": {"net.gtr": TRACE, "other.gtr": TRACE},
    "keygen -o out --passphrase-file horse.txt": {"horse.txt": SECRET},
    "getpub key.pem -o out": {"key.pem": {**KEY, "locked": PRIVATE_KEY["locked"]}},
    "keyinfo key.pem": {"key.pem": {**KEY, "locked": PRIVATE_KEY["locked"]}},
    "sign net.gtr --signing-key key.pem -o out": {"net.gtr": UNSIGNED, "key.pem": PRIVATE_KEY},
    "strip net.sgtr -o out": {"net.sgtr": SIGNED_TRACE},
    "sign net.gtr --signing-key locked.pem -o out --passphrase-file horse.txt": {"horse.txt": SECRET},
    "verify net.sgtr --key pub.pem": {"net.sgtr": SIGNED_TRACE, "pub.pem": PUBLIC_KEY},
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
    "replay net.sgtr --key pub.pem --param w=array.npy --expect y=other.npy --top 1 --labels horse.txt": {
        "array.npy": TENSOR,
        "other.npy": TENSOR,
        "horse.txt": {"too few": b"", "not text": b"\xff\n" * 6},
    },
    "bench net.sgtr --key pub.pem --input x=array.npy": {
        "net.sgtr": SIGNED_TRACE,
        "pub.pem": DEVICE_KEY,
        "array.npy": TENSOR,
    },
    "sbom -o out": {},  # its folder: tests/unit/test_sbom.py
    # Images, and what they are made of: tests/emulated/test_flash.py.
    "flash --check net.gtr --key pub.pem": {"pub.pem": DEVICE_KEY},
    "record ncnn net.param net.bin --shape data=1x2x3 -o out": {"net.param": NCNN_PARAM, "net.bin": NOTHING},
    "record run -o out --file horse.txt -- net.bin": {"net.bin": NOTHING, "horse.txt": NOTHING},
}
# Their files: test_gpureplay.py, test_regs_history.py; test_inspect.py; test_lint.py. The others take none.
NOT_HERE = {"import", "inspect", "lint", "cache", "manual"}

CASES = [
    pytest.param(line, name, content, id=f"{line} | {name} {what}")
    for line, files in COMMANDS.items()
    for name, bad in files.items()
    for what, content in {"missing": None, "a folder": "folder", **bad}.items()
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with good files, and one for temporary files that must be empty in the end."""
    work, temporary = tmp_path / "work", tmp_path / "tmp"
    work.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for name, content in {
        **GOOD,
        "other.gtr": RAW,
        "other.npy": GOOD["array.npy"],
        "locked.pem": PRIVATE_KEY["locked"],
    }.items():
        Path(name).write_bytes(content)
    yield work
    assert list(temporary.iterdir()) == []


def listing() -> list[tuple[Path, bytes]]:
    """Every file here and its content."""
    return sorted((path, path.read_bytes() if path.is_file() else b"") for path in Path().rglob("*"))


def refused(words: list[str]) -> str:
    """Run a command that must refuse, without and with --json; its sentence."""
    before = listing()
    result = run(words)
    assert result.stdout == ""
    sentence = check(result)
    with_json = run(
        [*words[:1], "--json", *words[1:]] if words[0] != "record" else [*words[:2], "--json", *words[2:]]
    )
    assert check(with_json) == sentence
    assert with_json.stdout.count("\n") == 1
    assert json.loads(with_json.stdout) == {"ok": False, "error": sentence}
    assert listing() == before
    return sentence


def run(words: list[str]) -> Result:
    return CliRunner().invoke(main, words, catch_exceptions=False)


def check(result: Result) -> str:
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: "), result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith("\n")
    assert "Traceback" not in result.stderr
    return result.stderr.removeprefix("error: ").removesuffix("\n")


@pytest.mark.parametrize(("line", "name", "content"), CASES)
def test_a_bad_file_is_named(line: str, name: str, content: bytes | str | None) -> None:
    bad = Path(f"BAD{Path(name).suffix}")
    if content == "folder":
        bad.mkdir()
    elif isinstance(content, bytes):
        bad.write_bytes(content)
    sentence = refused(shlex.split(line.replace(name, str(bad))))
    assert sentence.startswith(f"{bad}"), sentence
    if content is None:
        assert sentence == f"{bad}: No such file or directory"
    elif content == "folder":
        assert sentence == f"{bad}: Is a directory"
    elif name.endswith("gtr"):
        assert " at offset 0x" in sentence


@pytest.mark.parametrize(
    "line", [line for line in COMMANDS if " -o out" in line and not line.startswith("generate")]
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


USE = {
    "": None,
    "bogus": "No such command 'bogus'",
    "--bogus": "No such option '--bogus'",
    "build": "Missing argument 'RAW'",
    "build net.gtr": "Missing option '-o' / '--output'",
    "build net.gtr -o out --bogus": "No such option '--bogus'",
    "build net.gtr more -o out": "Got unexpected extra argument (more)",
    "build net.gtr -o": "Option '-o' requires an argument",
    "build net.gtr -o out --param w": "Invalid value for '--param': expected SLOT=FILE.npy or a folder of such f",
    "build net.gtr -o out --param w=": "Invalid value for '--param': expected SLOT=FILE.npy or a folder of such f",
    "build net.gtr -o out --param q=array.npy": "no parameter 'q'; there are: w",
    "build net.gtr -o out --param x=array.npy": "no parameter 'x'; there are: w",
    "build net.gtr -o out --param w=array.npy --param w=array.npy": "parameter 'w' is given twice: array.npy and",
    "build net.gtr -o out --skip bogus": "no pass called bogus; there are: ",
    "build net.gtr -o out --security-version 4294967296": "Invalid value for '--security-version'",
    f"build net.gtr -o out --name {'n' * 100}": "Invalid value for '--name'",
    "dump": "Missing argument 'FILE'",
    "diff net.gtr": "Missing argument 'NEW'",
    "keygen": "Missing option '-o' / '--output'",
    "getpub": "Missing argument 'KEY'",
    "keyinfo": "Missing argument 'KEY'",
    "sign net.gtr -o out": "Missing option '--signing-key'",
    "sign net.gtr --signing-key key.pem": "Missing option '-o' / '--output'",
    "verify net.sgtr": "Missing option '--key'",
    "strip net.sgtr": "Missing option '-o' / '--output'",
    "generate --gpu v3d42 --platform qemu-virt --key pub.pem -o out --bearssl .": ".: not a BearSSL source tree: ",
    "generate --gpu v3d42 --platform optee --key pub.pem -o out --bearssl .": "--bearssl cannot be used with opt",
    "replay net.sgtr --key pub.pem --bearssl .": ".: not a BearSSL source tree: expected src/codec/ccopy.c",
    "replay net.sgtr --key pub.pem --on optee --bearssl .": "--bearssl cannot be used with --on optee: OP-TEE has",
    "generate --gpu v3d42 --key pub.pem -o out": "expected either --platform NAME or --board FILE",
    "generate --gpu x --platform qemu-virt --key pub.pem -o out": "Invalid value for '--gpu': 'x' is not",
    "generate --gpu mali_g52 --platform qemu-virt --key pub.pem -o out": "Invalid value for '--gpu'",
    "generate --gpu v3d42 --platform qemu-virt --key pub.pem -o out --carveout-mib 0": "Invalid value for '--carv",
    "generate --gpu v3d42 --platform optee --key pub.pem -o out --carveout-mib 3": "optee.toml: memory.carveout",
    "replay net.sgtr": "Missing option '--key'",
    "replay net.sgtr --key pub.pem --on moon": "Invalid value for '--on': 'moon' is not one of",
    "replay net.sgtr --key pub.pem --repeat 0": "Invalid value for '--repeat'",
    "replay net.sgtr --key pub.pem --gpu moon": "moon: unknown GPU name (known: v3d42, v3d42-pi4",
    "replay net.sgtr --key pub.pem --gpu v3d42-moon": "v3d42-moon: unknown GPU name (known: v3d42, v3d42-pi4",
    "replay net.sgtr --key pub.pem --gpu mali_g52": "mali_g52: unknown GPU name",
    "replay net.sgtr --key pub.pem --firmware out": "--firmware cannot be used with --on vgpu",
    "replay net.sgtr --key pub.pem --normal-world linux": "--normal-world cannot be used with --on vgpu",
    "replay net.sgtr --key pub.pem --input q=array.npy": "no input 'q'; there are: x",
    "replay net.sgtr --key pub.pem --param x=array.npy": "no parameter 'x'; there are: w",
    "replay net.sgtr --key pub.pem --output x=out": "no output 'x'; there are: y",
    "replay net.sgtr --key pub.pem --input x=array.npy --input x=array.npy": "input 'x' is given twice: ",
    "replay net.sgtr --key pub.pem --output y=out --output y=out": "output 'y' is given twice: out and out",
    "replay net.sgtr --key pub.pem --labels horse.txt": "--labels names what --top shows: give both",
    "replay net.sgtr --key pub.pem --expect x=array.npy": "no output 'x'; there are: y",
    "replay net.sgtr --key pub.pem --timeout 9": "--timeout cannot be used with --on vgpu: no machine boots there",
    "replay net.sgtr --key pub.pem -v -q": "--verbose and --quiet exclude each other",
    "dump net.gtr --log no/where": "no/where: No such file or directory",
    "dump net.gtr --log net.gtr": "--log net.gtr: this file has another use here",
    "bench net.sgtr": "Missing option '--key'",
    "bench net.sgtr --key pub.pem --repeat 0": "Invalid value for '--repeat'",
    "flash -o out": "expected either OUT -o IMAGE, or --check IMAGE",
    "flash out -o out --key pub.pem": "expected either OUT",
    "flash out --check net.gtr": "--check takes only an image, --key and --board",
    "flash --check net.gtr --trace net.sgtr": "--check takes only an image, --key and --board",
    "flash --check net.gtr": "net.gtr: not an image that 'gramophone flash' wrote",
    "record bogus": "No such command 'bogus'",
    "record ncnn net.param": "Missing argument 'WEIGHTS'",
    "record ncnn net.param net.bin -o out": "Missing option '--shape'",
    "record ncnn net.param net.bin --shape data -o out": "Invalid value for '--shape': expected NAME=SHAPE",
    "record ncnn net.param net.bin --shape data=1x0 -o out": "Invalid value for '--shape': expected 1 to 4 dim",
    "record ncnn net.param net.bin --shape data=1x1x1x1x1 -o out": "Invalid value for '--shape': expected 1 to 4",
    "record ncnn net.param net.bin --shape a=1 --shape a=1 -o out": "the shape of an input is given twice",
    "record ncnn net.param net.bin --shape a=1 --tolerance x -o out": "Invalid value for '--tolerance'",
    "record ncnn net.param net.bin --shape a=1 --tolerance nan -o out": "--tolerance: expected a number",
    f"record ncnn net.param net.bin --shape a=1 -o out --name {'n' * 100}": "Invalid value for '--name'",
    "record run -o out": "Missing argument 'PROGRAM'",
    "record run net.bin": "Missing option '-o' / '--output'",
    "record run --gpu mali_g52 -o out net.bin": "Invalid value for '--gpu': 'mali_g52' is not one of",
    "record ncnn net.param net.bin --shape a=1 --gpu mali_g71 -o out": "--gpu mali_g71: this virtual GPU runs no",
}


@pytest.mark.parametrize("line", [line for line, reason in USE.items() if reason])
def test_wrong_use(line: str) -> None:
    words = shlex.split(line)
    if len(words) > 1 or words[0].startswith("-"):
        sentence = refused(words)
    else:
        sentence = check(run(words))
        with_json = run([*words, "--json"])
        assert json.loads(with_json.stdout) == {"ok": False, "error": sentence}
    assert sentence.startswith(str(USE[line])), sentence


def test_all_commands_are_here() -> None:
    assert main.lazy.keys() - NOT_HERE == {line.split()[0] for line in COMMANDS}
    for line, files in COMMANDS.items():
        words = shlex.split(line)
        command = main.lazy[words[0]].load()
        if isinstance(command, click.Group):
            assert command.commands.keys() == {
                other.split()[1] for other in COMMANDS if other.startswith(words[0])
            }
        named = {word.rpartition("=")[2] for word in words}
        assert files.keys() <= named
