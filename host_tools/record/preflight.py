# SPDX-License-Identifier: BSD-2-Clause
"""What is wrong with a network's files is said before anything is downloaded, booted or recorded."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from host_tools.machine.errors import RecordError
from host_tools.machine.placements import PLACEMENTS
from host_tools.record.ncnn.cpu_layers import CpuEnd, cpu_end
from host_tools.record.ncnn.model_weights import ModelWeights
from host_tools.record.ncnn.param import casts_to_half, layers_of
from host_tools.support import programs
from host_tools.support.confined import PYTHON
from host_tools.support.messages import LOG
from host_tools.support.progress import phase
from host_tools.support.sandbox import Sandbox
from trace_format import limits
from trace_format.errors import listed
from trace_format.files import read_file, read_file_text

PROGRAM = "host_tools.record.ncnn.files"


class NetworkError(RecordError):
    """ncnn did not take the network's files, or the inputs for it."""


@dataclass(frozen=True)
class Checked:
    """What ncnn takes.

    Attributes:
        weights: as float32 where they were float16.
        end: what the CPU computes.
        halves: a layer casts to half precision, so that results are further apart.
    """

    weights: ModelWeights
    end: CpuEnd
    halves: bool = False


def refuse_without_ncnn(gpu: str) -> None:
    """NetworkError if ncnn is known not to run on this GPU, before anything is converted or booted."""
    if gpu in PLACEMENTS and (reason := PLACEMENTS[gpu].without_ncnn):
        raise NetworkError(reason)


def preflight(
    param: bytes, weights: bytes, shapes: Mapping[str, tuple[int, ...]], until: Sequence[str] = ()
) -> Checked:
    """Ask ncnn's CPU back end about a network.

    Args:
        param, weights: ncnn's text and binary files.
        shapes: shape of each input blob, slowest dimension first.
        until: blobs that are to be computed; empty: all outputs.

    Raises:
        NetworkError: names the layer and what is wrong with it, or the input.
    """
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name, phase("checking the network's files"):
        folder = Path(name)
        (folder / "given.param").write_bytes(param)
        (folder / "given.bin").write_bytes(weights)
        words = [word for blob in until for word in ("--until", blob)]
        words += [f"{blob}={'x'.join(map(str, shape))}" for blob, shape in shapes.items()]
        command = [*PYTHON, PROGRAM, "given.param", "given.bin", ".", *words]
        try:
            done = programs.run(command, cwd=folder, sandbox=Sandbox(writes=(folder,)))
        except subprocess.TimeoutExpired as error:
            raise NetworkError(f"ncnn takes more than {error.timeout:.0f} s on these files") from None
        LOG.debug("ncnn: %s", " | ".join(done.stderr.split("\n")))
        if done.returncode < 0:
            raise NetworkError(f"ncnn ends with {signal.Signals(-done.returncode).name} on these files")
        if done.returncode:
            raise RecordError(f"ncnn could not be asked: {' '.join(done.stderr.split()[-40:])}")
        if answer := read_file_text(folder / "answer", limits.TEXT_BYTES):
            said = [line for line in done.stderr.splitlines() if line.startswith("layer ")]  # ncnn's own words
            raise NetworkError(f"{answer} ({said[-1]})" if said else answer)
        if halves := read_file_text(folder / "halves", limits.TEXT_BYTES).splitlines():
            LOG.info("note: float16 weights are recorded as float32: %s", listed(halves))
        blobs = json.loads(read_file_text(folder / "shapes", limits.TEXT_BYTES))
        layers = layers_of(param.decode(errors="replace"))
        end = cpu_end(layers, until, {blob: tuple(shape) for blob, shape in blobs.items()})
        spans = [line.split() for line in read_file_text(folder / "spans", limits.TEXT_BYTES).splitlines()]
        int8, fixed = (
            tuple((int(at), int(end)) for kind, at, end in spans if kind == wanted) for wanted in ("int8", "fixed")
        )
        return Checked(ModelWeights(read_file(folder / "net.bin"), int8, fixed), end, casts_to_half(layers))
