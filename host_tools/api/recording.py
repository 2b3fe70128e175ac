# SPDX-License-Identifier: BSD-2-Clause
"""Recording networks from their files: what is wrong with one is said with its name."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from host_tools.machine.placements import PLACEMENTS
from host_tools.record.choosing import COMPILERS, Choice
from host_tools.record.ncnn.network import record_network
from host_tools.record.needs import BY_NCNN, require
from host_tools.record.preflight import NetworkError
from host_tools.support.packages import sentence
from trace_format import limits, profile
from trace_format.errors import GramophoneError, listed
from trace_format.files import open_regular, read_file
from trace_format.layout import naming
from trace_format.trace import Trace

Shapes = Mapping[str, tuple[int, ...]]
PARAM_MAGIC = b"7767517"
ONNX_PACKAGES = ("onnx", "onnxruntime", "google", "tinygrad")  # google: protobuf's


@contextmanager
def told(file: str) -> Iterator[None]:
    """Name a network's file in errors.

    Raises:
        GramophoneError: in place of NetworkError, or a package is missing that only some files need.
    """
    try:
        with naming(file):
            yield
    except NetworkError as error:
        raise GramophoneError(f"{file}: {error}") from error
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ONNX_PACKAGES:
            raise
        raise GramophoneError(sentence(str(error.name), "onnx")) from None


def check(tolerance: float | None, gpu: str, compiler: str = COMPILERS[0]) -> None:
    """GramophoneError for what no recording can have."""
    if tolerance is not None and not 0 <= tolerance < math.inf:
        raise GramophoneError(f"--tolerance: expected a number from 0, found {tolerance}")
    gpus = [name for name in profile.names() if name in PLACEMENTS]
    for what, value, values in (("gpu", gpu, gpus), ("compiler", compiler, COMPILERS)):
        if value not in values:
            raise GramophoneError(f"{what}: expected one of {listed(values)}, found {value!r}")


def chosen(choose: Callable[..., Choice], model: Path, shapes: Shapes, **asked: Any) -> Choice:
    """Who records a network; `choose` and its arguments are of `host_tools.record.frontends`."""
    open_regular(model).close()
    with told(str(model)):
        return choose(model, shapes, **asked)


def recorded(
    choose: Callable[..., Choice],
    model: Path,
    shapes: Shapes,
    *,
    name: str,
    check: bool,
    expected_to: Path | None = None,
    **asked: Any,
) -> Trace:
    """Record a network by who takes it; arguments as `chosen` and `record_network`."""
    choice = chosen(choose, model, shapes, **asked)
    with told(str(model)):
        return choice.record(name=name, check=check, expected_to=expected_to)


def ncnn_files(param: Path, weights: Path) -> tuple[bytes, bytes]:
    """The content of ncnn's two files; GramophoneError where the first is none."""
    network = read_file(param, limits.MODEL_BYTES), read_file(weights, limits.MODEL_BYTES)
    _check_param(param, network[0])
    return network


def recorded_ncnn(param: Path, weights: Path, shapes: Shapes, **how: Any) -> Trace:
    """Record ncnn's files; arguments and errors as `record_network`."""
    network = ncnn_files(param, weights)
    require(*BY_NCNN)
    with told(f"{param}, {weights}"):
        return record_network(*network, shapes, **how)


def _check_param(path: Path, data: bytes) -> None:
    """Refuse at once what ncnn would refuse in the guest (ncnn src/net.cpp: magic number, newline, two counts)."""
    lines = data[:80].split(b"\n")
    if lines[0].strip() != PARAM_MAGIC:
        raise GramophoneError(
            f"{path} at offset 0x0: not an ncnn .param file: expected {PARAM_MAGIC.decode()!r} as its first line, "
            f"found {lines[0][:20].decode('ascii', 'backslashreplace')!r}"
        )
    if not re.fullmatch(rb"\s*\d+\s+\d+\s*", lines[1] if len(lines) > 1 else b""):
        raise GramophoneError(
            f"{path} at offset {len(lines[0]) + 1:#x}: not an ncnn .param file: "
            "expected numbers of layers and blobs as its second line"
        )
