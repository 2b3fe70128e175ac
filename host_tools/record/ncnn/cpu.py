# SPDX-License-Identifier: BSD-2-Clause
"""ncnn's own CPU back end on this machine: the reference that recordings and replays are compared with."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from host_tools.machine.errors import RecordError
from host_tools.record.ncnn.guest.guest_ncnn import infer, load
from host_tools.support import contained
from host_tools.support.sandbox import Sandbox

Float32 = npt.NDArray[np.float32]


def run(
    param: Path, weights: Path, inputs: Mapping[str, Float32], outputs: Sequence[str] = ()
) -> dict[str, Float32]:
    """One inference in float32 on one thread, in a sandbox.

    Args:
        param: the network, ncnn's text form.
        weights: its weights, ncnn's `.bin`.
        inputs: array of each input blob, without a batch dimension (channels, height, width).
        outputs: blobs to compute; empty: all outputs of the network.

    Returns:
        Array of each output blob; of boxes where there are none, one without elements.

    Raises:
        RecordError: a file is missing or not what ncnn loads, or an input or output is not in the network.
    """
    for path in (param, weights):
        if not path.is_file():
            raise RecordError(f"{path}: file is missing")
    sandbox = Sandbox(reads=(param, weights))
    return contained.call("ncnn", lambda: _run(param, weights, inputs, outputs), dict[str, Float32], sandbox)


def _run(param: Path, weights: Path, inputs: Mapping[str, Float32], outputs: Sequence[str]) -> dict[str, Float32]:
    try:
        net = load(str(param), str(weights), gpu=False)
        names = list(outputs) or list(net.output_names())
        arrays = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in inputs.items()}
        results = infer(net, arrays, names)
    except ValueError as error:
        raise RecordError(f"{param}: {error}") from error
    return {name: _array(result) for name, result in zip(names, results, strict=True)}


def run_files(
    network: tuple[bytes, bytes], inputs: Mapping[str, Float32], outputs: Sequence[str] = ()
) -> dict[str, Float32]:
    """As `run`, of the content of ncnn's two files."""
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
        paths = Path(folder) / "net.param", Path(folder) / "net.bin"
        for path, data in zip(paths, network, strict=True):
            path.write_bytes(data)
        return run(*paths, inputs, outputs)


def _array(mat: Any) -> Float32:
    return np.zeros(0, np.float32) if mat.empty() else np.array(mat, dtype=np.float32)
