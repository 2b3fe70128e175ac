# SPDX-License-Identifier: BSD-2-Clause
"""ncnn's own GPU code on lavapipe, Mesa's Vulkan driver for the CPU: how far ncnn's two back ends are apart.

With int8 weights a sum that is off by its last bit can be rounded to the next of 255 steps, and later layers see
another value. What the same shaders do in another driver tells how much of a difference is ncnn's.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from host_tools.record.ncnn.guest import guest_ncnn
from host_tools.support import programs
from trace_format.errors import GramophoneError

Float32 = npt.NDArray[np.float32]
DRIVERS = Path("/usr/share/vulkan/icd.d")


def run(
    param: Path, weights: Path, inputs: Mapping[str, Float32], outputs: Sequence[str] = (), *, int8: bool = False
) -> dict[str, Float32]:
    """One inference: array of each output blob. In a process of its own, as Vulkan looks for drivers once.

    Args:
        outputs: blobs to compute; empty: all outputs of the network.
        int8: the network has int8 weights.

    Raises:
        GramophoneError: lavapipe is not installed, or ncnn failed.
    """
    driver = next(DRIVERS.glob("lvp_icd*.json"), None)
    if driver is None:
        raise GramophoneError(f"{DRIVERS}: no lavapipe (apt-get install mesa-vulkan-drivers libvulkan1)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, guest_ncnn.__file__, str(param), str(weights), name]
        command += ["--int8"] if int8 else []
        for number, (blob, array) in enumerate(inputs.items()):
            file = folder / f"input{number}"
            file.write_bytes(np.ascontiguousarray(array, np.float32).tobytes())
            command += ["--input", f"{blob}={file}={'x'.join(map(str, array.shape))}"]
        for blob in outputs:
            command += ["--output", blob]
        done = programs.run(command, env={**os.environ, "VK_ICD_FILENAMES": str(driver)})
        report = folder / "report"
        if done.returncode or "llvmpipe" not in report.read_text(encoding="utf-8"):
            raise GramophoneError(f"ncnn failed on lavapipe: {done.stderr.strip()[-2000:]}")
        found = {}
        for line in report.read_text(encoding="utf-8").splitlines():
            if line.startswith("output "):
                _, kind, index, blob, text = line.split()
                shape = [int(size) for size in text.split("x")]
                values = np.fromfile(folder / kind / index, np.float32)
                assert values.size == math.prod(shape)
                found[blob] = values.reshape(shape)
        return found
