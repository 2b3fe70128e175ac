# SPDX-License-Identifier: BSD-2-Clause
"""What a board needs to record a network itself: a folder to be copied there, packed as a tar file.

The board runs the network three times, as `record ncnn` does in the recording machine (record/network.py), under
the recorder at its driver's ioctls (v3d_ioctls.c), without privileges and without a compiler.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from host_tools.record.inputs import recorded_inputs
from host_tools.record.ncnn.job import GUEST_PROGRAM, input_files
from host_tools.record.ncnn.network import plans, program_options
from host_tools.record.preflight import NetworkError, preflight
from host_tools.record.tolerances import default_tolerance
from host_tools.support import programs
from host_tools.support.version import TOOL
from host_tools.vgpu.build import HERE as VGPU
from host_tools.vgpu.build import BuildError, recorder_sources
from tee_replayer.generator.strictness import WARNINGS
from trace_format.emit import GENERATED
from trace_format.files import read_file

HERE = Path(__file__).resolve().parent
V3D = HERE.parents[1] / "gpus" / "v3d" / "vgpu" / "device"  # its register map
COMPILER = "aarch64-linux-gnu-gcc"
CFLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", *WARNINGS]
KIT_VERSION = 1
SPEC = "kit.json"
PROGRAMS = ("run.sh", "recorder.so")


def recorder_library() -> bytes:
    """The recorder as a shared library for aarch64, to be preloaded.

    Raises:
        BuildError: there is no cross compiler, or it failed.
    """
    if shutil.which(COMPILER) is None:
        raise BuildError(f"{COMPILER} is not installed (apt-get install gcc-aarch64-linux-gnu)")
    sources = [*sorted(HERE.glob("*.c")), *recorder_sources()]
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
        library = Path(folder) / "recorder.so"
        include = [f"-I{path}" for path in (VGPU, V3D, GENERATED, HERE)]
        done = programs.run([COMPILER, *CFLAGS, *include, "-o", str(library), *map(str, sources)])
        if done.returncode:
            raise BuildError(f"compiling the recorder failed, status {done.returncode}:\n{done.stderr.strip()}")
        return read_file(library)


def kit(
    param: bytes, weights: bytes, shapes: Mapping[str, tuple[int, ...]], *, name: str, tolerance: float | None
) -> dict[str, bytes]:
    """The kit's files by name.

    Args:
        param, weights: ncnn's text and binary files.
        shapes: shape of each input blob (channels, height, width), no batch dimension.
        name: name of the trace.
        tolerance: as of `record_network`.

    Raises:
        NetworkError: ncnn cannot run the network.
        BuildError: as `recorder_library`.
    """
    checked = preflight(param, weights, shapes)
    if steps := (*checked.end.between.steps, *checked.end.steps):
        raise NetworkError(
            f"'record pi' cannot record layers that ncnn computes on the CPU: {steps[0].layer.place}"
        )
    options = program_options(checked.weights)
    spec = {
        "version": KIT_VERSION,
        "recorder": TOOL,
        "name": name,
        "shapes": {blob: list(shape) for blob, shape in shapes.items()},
        "tolerance": default_tolerance(options, checked.halves) if tolerance is None else tolerance,
        "param_sha256": hashlib.sha256(param).hexdigest(),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    files = {
        SPEC: json.dumps(spec, indent=1).encode() + b"\n",
        "run.sh": (HERE / "run.sh").read_bytes(),
        "recorder.so": recorder_library(),
        "infer.py": GUEST_PROGRAM.read_bytes(),
        "net.param": param,
    }
    for run, (values, inputs) in enumerate(plans(checked.weights, recorded_inputs(shapes)), 1):
        data, words = input_files(inputs, str(run))
        files |= {f"{run}/net.bin": values, **data, f"{run}/inputs": " ".join([*options, *words]).encode() + b"\n"}
    return files


def packed(files: Mapping[str, bytes], folder: str) -> bytes:
    """A tar file with everything in one folder."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(f"{folder}/{path}")
            member.size = len(data)
            member.mode = 0o755 if path in PROGRAMS else 0o644
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()
