# SPDX-License-Identifier: BSD-2-Clause
"""Which layers can be recorded, and on which GPUs. The compilers themselves are asked, so no list grows old."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import ncnn

from host_tools.machine.placements import PLACEMENTS
from host_tools.record.ncnn.cpu_layers import WITHOUT_WORK
from host_tools.record.ncnn.cpu_operators import LAYERS
from host_tools.record.ncnn.known_layers import known_layers
from host_tools.record.preflight import NetworkError
from host_tools.support import programs
from host_tools.support.confined import PYTHON
from host_tools.support.sandbox import Sandbox

_OPERATOR_LIST = "host_tools.record.compiled.operator_list"


@dataclass(frozen=True)
class NcnnLayers:
    """Types of ncnn's layers, each list in order of the alphabet.

    Attributes:
        version: of ncnn.
        on_gpu: ncnn has Vulkan code for them.
        by_operator: an operator of a trace computes them on the CPU, in the secure world.
        neither: networks that have them are refused.
    """

    version: str
    on_gpu: tuple[str, ...]
    by_operator: tuple[str, ...]
    neither: tuple[str, ...]


@functools.cache
def ncnn_layers() -> NcnnLayers:
    """What the installed ncnn has, by its own word."""
    made = known_layers()
    names = [name for name, layer in made.items() if layer is not None and name not in WITHOUT_WORK]
    on_gpu = tuple(name for name in names if made[name].support_vulkan)
    slow = [name for name in names if name not in on_gpu]
    return NcnnLayers(
        ncnn.__version__,
        on_gpu,
        tuple(name for name in slow if name in LAYERS),
        tuple(name for name in slow if name not in LAYERS),
    )


@functools.cache
def onnx_operators() -> tuple[str, ...]:
    """Names of ONNX's operators that tinygrad's front end or this project has code for, in order of the alphabet.

    Those that ONNX defines by others are taken, too, where these are here.
    """
    done = programs.run([*PYTHON, _OPERATOR_LIST], sandbox=Sandbox())
    if done.returncode:
        raise NetworkError(f"tinygrad does not say which operators it has: {done.stderr.strip()[-200:]}")
    return tuple(done.stdout.split())


def gpus_without_ncnn() -> dict[str, str]:
    """GPUs on which ncnn does not run, and why."""
    return {gpu: place.without_ncnn for gpu, place in PLACEMENTS.items() if place.without_ncnn}


def gpus() -> tuple[str, ...]:
    """All that networks are recorded for."""
    return tuple(PLACEMENTS)
