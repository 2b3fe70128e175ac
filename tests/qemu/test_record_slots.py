# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone record run --input`: slots of a program that reads and writes files, and what else it gets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from host_tools import runners
from host_tools.machine.apt import AptRoot
from host_tools.machine.initramfs import LIBRARIES
from host_tools.machine.root import ARCHITECTURE, PACKAGES, SUITE, RecordRoot
from host_tools.passes.pipeline import build
from host_tools.record.differences import relative_difference
from host_tools.record.program import other_values
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.support.guest_programs import cross_compile, record, refused
from trace_format.schema import SlotKind
from trace_format.trace import Trace

COUNT = 300
# y = leaky ReLU of x, by ncnn on the GPU: a network from a folder, its slope from a variable.
PROGRAM = """
import os, sys
import ncnn

if ncnn.get_gpu_count() < 1:
    sys.exit("no GPU")
with open("parts/net.param") as file:
    text = file.read().replace("SLOPE", os.environ["SLOPE"])
with open("net.param", "w") as file:
    file.write(text)
net = ncnn.Net()
net.opt.use_vulkan_compute = True
for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic"):
    setattr(net.opt, "use_" + option, False)
net.load_param("net.param")
net.load_model(os.devnull)
with open(sys.argv[1], "rb") as file:
    values = memoryview(file.read()).cast("f")
extractor = net.create_extractor()
extractor.input("x", ncnn.Mat(values).clone())
_, result = extractor.extract("y")
extractor.clear()
with open(sys.argv[2], "wb") as file:
    file.write(memoryview(result).tobytes())
net.clear()
ncnn.destroy_gpu_instance()
print("done")
"""
NETWORK = "7767517\n2 2\nInput x 0 1 x\nReLU relu 1 1 x y 0=SLOPE\n"


@pytest.fixture
def words(root: RecordRoot, tmp_path: Path) -> list[object]:
    """Arguments of `record run`: the guest's Python with that program."""
    parts = tmp_path / "given" / "parts"
    parts.mkdir(parents=True)
    (parts / "net.param").write_text(NETWORK)
    (tmp_path / "given" / "relu.py").write_text(PROGRAM)
    values = np.random.default_rng(3).normal(0, 1, COUNT).astype("<f4")
    (tmp_path / "given" / "x.bin").write_bytes(values.tobytes())
    python = root.tree / "usr/bin/python3.13"
    after = ["--", python, "-S", "-B", tmp_path / "given" / "relu.py", "x.bin", "y.bin"]
    return ["--file", parts, "--env", "SLOPE=0.25", *after]


# Boots with ncnn. Slots are found as for a network (test_networks.py), programs run as in test_record_run.py.
@pytest.mark.exhaustive
def test_a_program_gets_slots(words: list[object], tmp_path: Path) -> None:
    """Recorded with one input, built, signed, replayed with another."""
    raw = tmp_path / "relu.raw.gtr"
    given = ["--input", f"x={tmp_path / 'given' / 'x.bin'}", "--result", "y=y.bin", "--json"]
    said = json.loads(record("-o", raw, *given, *words).stdout)
    assert [(slot["name"], slot["kind"], slot["shape"]) for slot in said["slots"]] == [
        ("x", "input", [COUNT]),
        ("y", "output", [COUNT]),
    ]
    trace = build(Trace.read(raw))
    assert [slot.kind for slot in trace.slots] == [SlotKind.INPUT, SlotKind.OUTPUT]
    signer = FileSigner(generate(Algorithm.ES256))
    signed = sign_trace(trace.build(), signer)
    values = np.linspace(-3, 5, COUNT, dtype=np.float32)
    result = runners.run("vgpu", Delivery(signed), signer.public, {"x": values}, repeat=2)
    assert result.ok, result.error
    assert np.array_equal(result.outputs["y"], np.where(values < 0, values * np.float32(0.25), values))


def headers(folder: Path, *packages: str) -> Path:
    """Packages of Debian for the guest, unpacked: headers, and what programs link."""
    apt = AptRoot(SUITE, ARCHITECTURE, "record-headers", assume=PACKAGES)
    apt.download(packages)
    apt.debs = [deb for deb in apt.debs if deb.name in packages]
    apt.extract(folder / "system")
    return folder / "system"


@pytest.mark.exhaustive  # two boots with LLVM in memory
def test_opengl_es_by_packages(root: RecordRoot, tmp_path: Path) -> None:
    """A compute shader without a surface: recorded, built, replayed in the secure world with another input."""
    program = tmp_path / "square"
    system = headers(tmp_path, "libegl-dev", "libgles-dev", "libegl1", "libgles2")
    libraries = [system / LIBRARIES / name for name in ("libEGL.so.1", "libGLESv2.so.2")]
    source = Path(__file__).with_name("gles") / "square.c"
    options = [f"-I{system / 'usr/include'}", *libraries, "-Wl,--allow-shlib-undefined"]
    cross_compile(source, program, *options)
    values = tmp_path / "x.bin"
    values.write_bytes(np.random.default_rng(3).normal(0, 1, COUNT).astype("<f4").tobytes())
    raw = tmp_path / "square.raw.gtr"
    packages = ["--package", "libegl1", "--package", "libegl-mesa0", "--package", "libgles2"]
    words = ["--input", f"x={values}", "--result", "y=y.bin", *packages, "--", program, "x.bin", "y.bin"]
    record("-o", raw, *words)
    trace = Trace.read(raw)
    assert "libegl-mesa0" in trace.notes["packages"]
    signer = FileSigner(generate(Algorithm.ES256))
    x = np.linspace(-3, 5, COUNT, dtype=np.float32)
    signed = sign_trace(build(trace).build(), signer)
    result = runners.run("qemu", Delivery(signed), signer.public, {"x": x}, repeat=2)
    assert result.ok, result.error
    assert np.allclose(result.outputs["y"], x * x + 1, rtol=1e-6)


@pytest.mark.exhaustive  # two boots with LLVM in memory, which compiles the kernel
def test_opencl_by_packages(root: RecordRoot, tmp_path: Path) -> None:
    """A product of matrices, and a second kernel, by rusticl: replayed in the secure world with others."""
    here, program = Path(__file__).with_name("opencl"), tmp_path / "matmul"
    system = headers(tmp_path, "opencl-c-headers", "ocl-icd-libopencl1")
    options = [f"-I{system / 'usr/include'}", system / LIBRARIES / "libOpenCL.so.1", "-Wl,--allow-shlib-undefined"]
    cross_compile(here / "matmul.c", program, *options)
    shapes = {"a": (16, 24), "b": (24, 32)}
    random = np.random.default_rng(3)
    words: list[object] = ["--file", here / "matmul.cl", "--env", "RUSTICL_ENABLE=v3d", "--result", "c=c.bin"]
    for name, shape in shapes.items():
        random.normal(0, 1, shape).astype("<f4").tofile(tmp_path / f"{name}.bin")
        words += ["--input", f"{name}={tmp_path / name}.bin"]
    packages = ["--package", "mesa-opencl-icd", "--package", "ocl-icd-libopencl1"]
    raw = tmp_path / "matmul.raw.gtr"
    record("-o", raw, *words, *packages, "--", program, "16", "24", "32", "a.bin", "b.bin", "c.bin")
    signer = FileSigner(generate(Algorithm.ES256))
    a, b = (random.normal(0, 1, shape).astype(np.float32) for shape in shapes.values())
    signed = sign_trace(build(Trace.read(raw)).build(), signer)
    inputs = {"a": a.reshape(-1), "b": b.reshape(-1)}
    result = runners.run("qemu", Delivery(signed), signer.public, inputs)
    assert result.ok, result.error
    assert relative_difference(result.outputs["c"], (a @ b + 1).reshape(-1)) <= 1e-6


def test_a_package_that_is_none(words: list[object], tmp_path: Path) -> None:
    assert "Unable to locate package no-such-package" in refused(tmp_path, "--package", "no-such-package", *words)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "expected float32 values of 4 bytes each, found 0 bytes"),
        (bytes(7), "expected float32 values of 4 bytes each, found 7 bytes"),
        (bytes(8) + b"\x00\x00\xc0\x7f", "expected finite float32 values, found nan at offset 0x8"),
    ],
)
def test_inputs_that_are_no_values(content: bytes, said: str, words: list[object], tmp_path: Path) -> None:
    file = tmp_path / "given" / "x.bin"
    file.write_bytes(content)
    assert refused(tmp_path, "--input", f"x={file}", *words) == f"{file}: {said}"


def test_options_that_contradict_themselves(words: list[object], tmp_path: Path) -> None:
    file = tmp_path / "given" / "x.bin"
    assert "--result requires --input" in refused(tmp_path, "--result", "y=y.bin", *words)
    twice = ["--input", f"x={file}", "--input", f"x={file}"]
    assert refused(tmp_path, *twice, *words) == "--input, --result, --env: a name is given twice"
    assert "expected SLOT=FILE, found 'x'" in refused(tmp_path, "--input", "x", *words)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert refused(tmp_path, "--file", empty, *words) == f"{empty}: a folder without files"


def test_other_values_lie_in_the_range_of_the_given_ones() -> None:
    given = np.array([-2, 0, 0, 5], np.float32)
    found = other_values(given)
    assert (found >= -2).all()
    assert (found <= 5).all()
    assert len(np.unique(found)) == 4
    assert len(np.unique(other_values(np.zeros(9, np.float32)))) == 9
