# SPDX-License-Identifier: BSD-2-Clause
"""The guest job that runs one inference of an ncnn network on the GPU, and what it answers."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from host_tools.machine.boot import GuestJob
from host_tools.machine.errors import RecordError
from host_tools.support.gpu_folders import DEFAULT_GPU

GUEST_PROGRAM = Path(__file__).parent / "guest" / "guest_ncnn.py"
Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class NcnnResult:
    """What the guest computed and on what.

    Attributes:
        outputs: the GPU's results by blob name, float32.
        reference: ncnn's CPU results in the same guest; empty when not requested.
        versions: "ncnn", "python", "device", "vulkan" as the guest reported them.
    """

    outputs: dict[str, Float32]
    reference: dict[str, Float32]
    versions: dict[str, str]


def ncnn_job(
    param: bytes,
    weights: bytes,
    inputs: Mapping[str, Float32],
    outputs: Sequence[str] = (),
    *,
    reference: bool = False,
    options: Sequence[str] = (),
    gpu: str = DEFAULT_GPU,
) -> GuestJob:
    """Job of one inference.

    Args:
        param: the network, ncnn's text form.
        weights: its weights, ncnn's `.bin`.
        inputs: array of each input blob, shape without a batch dimension (channels, height, width).
        outputs: blobs to compute; empty: all outputs of the network.
        reference: also run ncnn's CPU back end in the guest, after the GPU's part.
        options: of the guest's program: "--int8", "--fp16".
        gpu: key of `machine.placements.PLACEMENTS`.
    """
    files = {
        "job/net.param": param,
        "job/net.bin": weights,
        "job/guest_ncnn.py": GUEST_PROGRAM.read_bytes(),
    }
    # -S: no site packages set-up, which imports much; -B: no compiled files are written.
    words = ["python3.13", "-S", "-B", "/job/guest_ncnn.py", "/job/net.param", "/job/net.bin", "/out"]
    words += ["--reference"] if reference else []
    data, named = input_files(inputs, "job", root="/")
    words += [*options, *named]
    for name in outputs:
        words += ["--output", name]
    return GuestJob(shlex.join(words), files | data, gpu=gpu)


def input_files(
    inputs: Mapping[str, Float32], folder: str, *, root: str = ""
) -> tuple[dict[str, bytes], list[str]]:
    """The inputs as files in a folder, by path, and the options of GUEST_PROGRAM that name them below `root`."""
    files, words = {}, []
    for index, (name, array) in enumerate(inputs.items()):
        path = f"{folder}/input{index}"
        files[path] = np.ascontiguousarray(array, dtype="<f4").tobytes()
        words += ["--input", f"{name}={root}{path}={'x'.join(map(str, array.shape))}"]
    return files, words


def ncnn_result(files: Mapping[str, bytes]) -> NcnnResult:
    """What the guest's program reported.

    Args:
        files: what it left in its output folder, by path below it.

    Raises:
        RecordError: the report is missing or does not fit the files that came with it.
    """
    arrays: dict[str, dict[str, Float32]] = {"gpu": {}, "cpu": {}}
    versions = {}
    try:
        for line in files["report"].decode().splitlines():
            key, _, rest = line.partition(" ")
            if key == "output":
                kind, index, name, shape = rest.split(" ")
                data = np.frombuffer(files[f"{kind}/{index}"], dtype="<f4")
                arrays[kind][name] = data.reshape([int(size) for size in shape.split("x")])
            else:
                versions[key] = rest
    except (KeyError, ValueError) as error:
        raise RecordError(f"the guest's answer does not fit the files that it sent: {error!r}") from error
    return NcnnResult(arrays["gpu"], arrays["cpu"], versions)
