# SPDX-License-Identifier: BSD-2-Clause
"""Networks of other frameworks as ncnn's files, by pnnx (github.com/pnnx/pnnx), the converter of ncnn's makers.

pnnx converts what it can, leaves the rest as layers that ncnn does not know, or with options that it names and
drops, and ends with success. So what it wrote is looked through here.
"""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ncnn

from host_tools.machine.console import last_lines
from host_tools.machine.wheels import PNNX_VERSION, pnnx
from host_tools.record.ncnn.param import WrongError, layers_of
from host_tools.record.preflight import NetworkError
from host_tools.support import programs
from host_tools.support.progress import phase
from host_tools.support.sandbox import Sandbox
from trace_format import limits
from trace_format.errors import listed
from trace_format.files import read_file, read_file_text

VERSION = f"pnnx {PNNX_VERSION}"
Shape = tuple[int, ...]
# In the example program that pnnx writes: the input, and which of its dimensions ncnn does not have.
_BATCH = re.compile(r'ex\.input\("in(\d+)", ncnn\.Mat\(in\d+\.numpy\(\), batch_index=(\d+)\)')
_NO_BATCH = 233  # pnnx src/pass_ncnn/solve_batch_index.cpp
_DROPPED = re.compile(r"^ignore (\S+) (\S+) param (\S+)", re.MULTILINE)  # pnnx src/save_ncnn.cpp
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_WARNINGS = re.compile(r"^.*\[W:onnxruntime:.*\n?", re.MULTILINE)  # of the machine, not of the network
NAMED = 3  # layers that an error names


@dataclass(frozen=True)
class Converted:
    """A network as ncnn's files.

    Attributes:
        param, weights: the `.param` and the `.bin` file, weights in float32.
        shapes: of each input blob in order, as ncnn takes it: without a batch dimension.
        names: in0, in1, .. and out0, out1, .. -> the blob's name, for those that have another.
    """

    param: bytes
    weights: bytes
    shapes: dict[str, Shape]
    names: dict[str, str]


@dataclass(frozen=True)
class Unconverted:
    """A layer that ncnn does not know, or that has lost options: name and type in what pnnx wrote, and those."""

    name: str
    type: str
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        lost = f" with {', '.join(self.options)}" if self.options else ""
        return f"{self.name} ({self.type}{lost})"


class UnconvertedError(NetworkError):
    """Layers of the network have no counterpart in ncnn.

    Args:
        layers: all of them.
    """

    def __init__(self, layers: Sequence[Unconverted]) -> None:
        self.layers = tuple(layers)
        super().__init__(
            f"{VERSION} has no ncnn layers for these of the network: {listed(map(str, layers), NAMED)}"
        )


def convert(
    model: bytes, suffix: str, shapes: Sequence[Shape], names: Mapping[str, str] | None = None
) -> Converted:
    """Convert a network.

    Args:
        model: content of its file, in one piece.
        suffix: how the file's name ends, which pnnx goes by: ".onnx" or ".pt".
        shapes: of its inputs in order, as the network has them; a batch dimension must be 1.
        names: better names for pnnx's in0, in1, .. and out0, out1, ..; those that ncnn could not hold are left.

    Raises:
        UnconvertedError: names each layer that could not be converted.
        NetworkError: pnnx does not take the file, or the network works on a batch.
    """
    program = pnnx()
    given = ",".join(f"[{','.join(map(str, shape))}]f32" for shape in shapes)
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name, phase("converting the network"):
        folder = Path(name)
        (folder / f"net{suffix}").write_bytes(model)
        # fp16=0: weights would be rounded to half precision.
        command = [str(program), f"net{suffix}", f"inputshape={given}", "fp16=0"]
        try:
            done = programs.run(command, cwd=folder, merged=True, sandbox=Sandbox(writes=(folder,)))
        except subprocess.TimeoutExpired as error:
            raise NetworkError(f"{VERSION} takes more than {error.timeout:.0f} s on it") from None
        said = _WARNINGS.sub("", _COLOURS.sub("", done.stdout))
        param, weights, example = folder / "net.ncnn.param", folder / "net.ncnn.bin", folder / "net_ncnn.py"
        if done.returncode or not (param.exists() and weights.exists() and example.exists()):
            ended = signal.Signals(-done.returncode).name if done.returncode < 0 else f"status {done.returncode}"
            raise NetworkError(f"{VERSION} ended with {ended} on it, last words: {last_lines(said.encode(), 2)}")
        text = read_file_text(param, limits.TEXT_BYTES)
        _check_layers(text, said)
        inputs = _without_batch(read_file_text(example, limits.TEXT_BYTES), shapes)
        text, new = renamed(text, names or {})
        sizes = {new.get(blob, blob): size for blob, size in inputs.items()}
        return Converted(text.encode(), read_file(weights), sizes, new)


def _check_layers(param: str, said: str) -> None:
    try:
        layers = layers_of(param)
    except WrongError as error:
        raise NetworkError(f"{VERSION} wrote a network that ncnn does not have: {error}") from error
    lost: dict[str, list[str]] = {}
    for _, name, option in _DROPPED.findall(said):
        lost.setdefault(name, []).append(option)
    wrong = [
        Unconverted(layer.name, layer.type, tuple(lost.get(layer.name, ())))
        for layer in layers
        if layer.name in lost or ncnn.layer_to_index(layer.type) < 0
    ]
    if wrong:
        raise UnconvertedError(wrong)


def _without_batch(example: str, shapes: Sequence[Shape]) -> dict[str, Shape]:
    """Shape of each input blob as ncnn takes it."""
    found = {int(number): int(axis) for number, axis in _BATCH.findall(example)}
    if sorted(found) != list(range(len(shapes))):
        raise NetworkError(f"{VERSION} made a network of {len(found)} inputs; shapes are given for {len(shapes)}")
    inputs = {}
    for number, shape in enumerate(shapes):
        axis = found[number]
        if axis == _NO_BATCH:
            inputs[f"in{number}"] = shape
            continue
        if shape[axis] != 1:
            size = "x".join(map(str, shape))
            raise NetworkError(
                f"input {number} of {size} is a batch of {shape[axis]} (dimension {axis}); 1 can be recorded"
            )
        inputs[f"in{number}"] = shape[:axis] + shape[axis + 1 :]
    return inputs


def renamed(param: str, names: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """A `.param` file with other names of blobs, and those of the names that ncnn and slots can hold.

    A blob inside the network that has one of the names by chance gets another.
    """
    new = {old: name for old, name in names.items() if re.fullmatch(r"[!-<>-~]{1,32}", name)}
    taken = set(new.values())
    lines = param.splitlines()
    for at, line in enumerate(lines[2:], 2):
        words = line.split()
        if len(words) < 4:
            continue
        for place in range(4, 4 + int(words[2]) + int(words[3])):
            blob = words[place]
            words[place] = new.get(blob, f"{blob}~" if blob in taken else blob)
        lines[at] = " ".join(words)
    return "".join(f"{line}\n" for line in lines), new
