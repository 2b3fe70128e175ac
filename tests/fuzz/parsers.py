# SPDX-License-Identifier: BSD-2-Clause
"""The fuzz targets in Python: whatever a file holds, a parser gives a result or one of the project's own errors.

Each runs in a process of its own, with limits of memory and of time for an input. Inputs come from Atheris
(libFuzzer for Python) where it is installed, else from a plain mutation of the samples.
"""

from __future__ import annotations

import functools
import json
import struct
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from host_tools.extras.importers import gpureplay
from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.extras.pytorch import program
from host_tools.extras.pytorch.convert import converted
from host_tools.flash import containers, fat, fat_write, fip, manifest, signed_ta
from host_tools.flash.check import check_opened
from host_tools.support import npy
from host_tools.vgpu import capture
from signing import envelope, key_files, verify
from signing.sign import FileSigner
from tee_replayer.generator import boards
from tests.support import mali_samples as mali
from tests.support import torch_program
from trace_format import profile
from trace_format.errors import GramophoneError
from trace_format.schema import DType
from trace_format.trace import Trace

PATCH_BYTES = 8


@dataclass(frozen=True)
class Parser:
    """A fuzz target.

    Attributes:
        run: reads an input; GramophoneError is a good answer.
        samples: inputs to start from.
        files: modules that do the reading: their coverage is counted.
    """

    run: Callable[[bytes], object]
    samples: Callable[[], list[bytes]]
    files: tuple[str, ...]


def in_file(read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """For a parser that takes a file's name."""

    @functools.cache
    def place() -> Path:
        return Path(tempfile.mkdtemp(prefix="fuzz-")) / "file"

    def run(data: bytes) -> object:
        place().write_bytes(data)
        return read(place())

    return run


def patched(base: Callable[[], bytes], read: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """For files that are large: an input is a list of patches to a good one, each a place (u32) and four bytes.

    Half of the places count from where the file has something else than zeros.
    """

    @functools.cache
    def good() -> tuple[bytes, list[int]]:
        data = base()
        return data, [at for at in range(0, len(data), 4) if any(data[at : at + 4])]

    def run(data: bytes) -> object:
        whole, used = good()
        changed = bytearray(whole)
        for where, value in struct.iter_unpack("<I4s", data[: len(data) // PATCH_BYTES * PATCH_BYTES]):
            at = used[(where >> 1) % len(used)] if where & 1 else (where >> 1) % len(whole)
            changed[at : at + 4] = value
        return read(bytes(changed[: len(whole)]))

    return run


def some_patches() -> list[bytes]:
    """Patches that change nothing, then something."""
    return [b"", struct.pack("<I4s", 1, b"\xff\xff\xff\xff"), struct.pack("<I4s", 64, bytes(4)) * 3]


def _trace() -> Trace:
    from tests.support import replayer_samples

    return replayer_samples.trace()


def _traces() -> list[bytes]:
    return [_trace().build(compress=False), _trace().build(compress=True)]


def _signed() -> list[bytes]:
    from tests.support import replayer_samples

    return [replayer_samples.signed(_trace())]


def _verify(data: bytes) -> object:
    from tests.support import replayer_samples

    return verify.verify_trace(data, [replayer_samples.KEY])


def _keys() -> list[bytes]:
    made: list[ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey] = [
        ec.derive_private_key(7, ec.SECP256R1()),
        ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32))),
    ]
    pems = [key_files.private_pem(key) for key in made]
    return [*pems, *(FileSigner(key).public.pem() for key in made)]


def _key(data: bytes) -> None:
    for load in (key_files.load_public_key, key_files.load_private_key):
        try:
            load(data)
        except GramophoneError:
            continue


def _fat() -> bytes:
    files = {"config.txt": b"x" * 700, "folder/a_long_name.bin": bytes(range(256)) * 5}
    return fat_write.write(files, fat_write.Volume(0, FAT_SECTORS, 1, "X"))


def _boards() -> list[bytes]:
    folder = resources.files("baremetal") / "boards"
    return [(folder / f"{name}.toml").read_bytes() for name in boards.names()]


FAT_SECTORS = 512


def _archive() -> bytes:
    package = fip.build({"soc-fw": bytes(range(200)), "nt-fw": bytes(64)})
    return containers.pack_archive({"fip.bin": package, manifest.NAME: _manifest(), "net.sgtr": _signed()[0]})


def _manifest() -> bytes:
    from tests.unit.flash.test_manifest import SAMPLE

    return SAMPLE.encode()


def _ta() -> list[bytes]:
    header = struct.pack("<IIIIHH", 0x4F545348, 1, 64, signed_ta.PSS, 32, 256)
    return [header + bytes(32 + 256) + uuid.UUID(int=7).bytes + struct.pack("<I", 9) + b"\x7fELF" + bytes(60)]


def _capture() -> list[bytes]:
    from tests.vgpu.test_capture import GOOD_FILE

    return [GOOD_FILE]


def _recording(data: bytes) -> Trace:
    """All files of a recording in one, each after its size."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        for name in mali.NAMES:
            size = int.from_bytes(data[:4], "little")
            (Path(folder) / name).write_bytes(data[4 : 4 + size])
            data = data[4 + size :]
        return import_gpureplay(Path(folder), "x")


def _joined() -> bytes:
    files = mali.recording()
    return b"".join(struct.pack("<I", len(files[name])) + files[name] for name in mali.NAMES)


def _all(found: Iterator[object]) -> None:
    for _ in found:
        pass


G71 = profile.load("mali_g71")


def _exported(path: Path) -> object:
    """A program of torch.export whose JSON is the input: an archive's checksum would refuse damaged ones."""
    return converted(program.read(torch_program.write(path.with_suffix(".pt2"), path.read_bytes())))


def _programs() -> list[bytes]:
    calls = [
        torch_program.call("aten.relu_.default", ["a"], self="x"),
        torch_program.call("aten.slice.Tensor", ["y"], self="a", dim=0, start=0, end=2),
    ]
    return [json.dumps(torch_program.program(calls)).encode()]


PARSERS = {
    "trace": Parser(
        lambda data: Trace.parse(data).check(), _traces, ("trace_format.trace", "trace_format.layout")
    ),
    "envelope": Parser(envelope.split, _signed, ("signing.envelope",)),
    "verify": Parser(_verify, _signed, ("signing.verify", "signing.envelope", "signing.curves")),
    "keys": Parser(_key, _keys, ("signing.key_files",)),
    "board": Parser(
        in_file(boards.read), _boards, ("tee_replayer.generator.boards", "tee_replayer.generator.board_checks")
    ),
    "npy": Parser(
        in_file(npy.read), lambda: [npy.npy(DType.FLOAT32, (2, 3), bytes(24))], ("host_tools.support.npy",)
    ),
    "capture": Parser(
        in_file(lambda path: _all(iter(capture.read_capture(path)))), _capture, ("host_tools.vgpu.capture",)
    ),
    "pt2": Parser(
        in_file(_exported),
        _programs,
        ("host_tools.extras.pytorch.program", "host_tools.extras.pytorch.convert"),
    ),
    "fat": Parser(
        patched(_fat, lambda data: fat.read(data, 0, len(data))),
        some_patches,
        ("host_tools.flash.fat", "host_tools.flash.fat_folder"),
    ),
    "fip": Parser(
        fip.parse, lambda: [fip.build({"soc-fw": b"a" * 40, "tos-fw": b"b"}, 3)], ("host_tools.flash.fip",)
    ),
    "signed-ta": Parser(signed_ta.parse, _ta, ("host_tools.flash.signed_ta",)),
    "manifest": Parser(manifest.Manifest.decode, lambda: [_manifest()], ("host_tools.flash.manifest",)),
    "image": Parser(
        patched(_archive, lambda data: check_opened(containers.take_apart(data))),
        some_patches,
        ("host_tools.flash.containers", "host_tools.flash.check", "host_tools.flash.contents"),
    ),
    "gpureplay-log": Parser(
        lambda data: gpureplay.read_history(data, G71),
        lambda: [mali.recording()[mali.HISTORY]],
        ("host_tools.extras.importers.gpureplay",),
    ),
    "gpureplay": Parser(
        patched(_joined, _recording),
        some_patches,
        (
            "host_tools.extras.importers.gpureplay_trace",
            "host_tools.gpus.mali.mali_tables",
            "host_tools.gpus.mali.kbase",
        ),
    ),
}


def once(name: str, data: bytes) -> None:
    """Run a parser on an input; any error but the project's own goes up."""
    try:
        PARSERS[name].run(data)
    except GramophoneError as error:
        str(error)
