# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone record layers`: what a network may have."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

import click

from host_tools.commands.framework import GramophoneCommand, Outcome
from host_tools.record import layer_lists
from host_tools.record.layer_lists import NcnnLayers
from host_tools.record.ncnn.equivalents import instead_of
from host_tools.support.results import Result
from trace_format.errors import meant

WIDTH = 100


@dataclass(frozen=True)
class NcnnFacts(NcnnLayers):
    """Types of ncnn's layers.

    Attributes:
        on_gpu: ncnn has code for GPUs.
        by_operator: an operator of the trace computes it, on the CPU.
        neither: networks with it are refused.
        instead: refused layer -> what can be recorded instead.
    """

    instead: dict[str, str]


class Compilers(Result):
    """Whether a compiler runs on a GPU."""

    ncnn: bool
    tinygrad: bool


class Layers(Result):
    """What networks may have.

    Attributes:
        onnx: Operators of ONNX that tinygrad takes.
    """

    ncnn: NcnnFacts
    onnx: tuple[str, ...]
    gpus: dict[str, Compilers]


@click.command(
    "layers", cls=GramophoneCommand, example="gramophone record layers\ngramophone record layers --find lstm"
)
@click.option("--find", metavar="WORD", help="Show only names with this text.")
def record_layers(find: str | None) -> Outcome[Layers]:
    """Show which layers and operators can be recorded.

    The list comes from the installed compilers, for each GPU. It differs only for GPUs that a compiler does not
    support. Exit status 1: no name has the text of --find.
    """
    layers, operators = layer_lists.ncnn_layers(), layer_lists.onnx_operators()
    if find is not None:
        layers = _found(layers, find)
        operators = _with(operators, find)
    without = layer_lists.gpus_without_ncnn()
    data = Layers(
        ncnn=NcnnFacts(
            **vars(layers), instead={name: said for name in layers.neither if (said := instead_of(name))}
        ),
        onnx=operators,
        gpus={gpu: Compilers(gpu not in without, tinygrad=True) for gpu in layer_lists.gpus()},
    )
    found = (*layers.on_gpu, *layers.by_operator, *layers.neither, *operators)
    if find is not None and not found:
        everything = layer_lists.ncnn_layers()
        names = (*everything.on_gpu, *everything.by_operator, *everything.neither, *layer_lists.onnx_operators())
        return Outcome(data, f"no layer and no operator has {find!r} in its name{meant(find, names)}", ok=False)
    return Outcome(data, "\n".join(_lines(layers, operators, without)))


def _with(names: tuple[str, ...], word: str) -> tuple[str, ...]:
    return tuple(name for name in names if word.lower() in name.lower())


def _found(layers: NcnnLayers, word: str) -> NcnnLayers:
    parts = (layers.on_gpu, layers.by_operator, layers.neither)
    return NcnnLayers(layers.version, *(_with(names, word) for names in parts))


def _lines(layers: NcnnLayers, operators: tuple[str, ...], without: dict[str, str]) -> Iterator[str]:
    on = [gpu for gpu in layer_lists.gpus() if gpu not in without]
    yield from _part(f"ncnn {layers.version}, on {', '.join(on)}: on the GPU", layers.on_gpu)
    yield from _part("ncnn: on the CPU, by an operator of the trace", layers.by_operator)
    yield from _part("ncnn: refused; record onnx --compiler tinygrad may take the network", layers.neither)
    yield from (f"    {name}: {said}" for name in layers.neither if (said := instead_of(name)))
    yield from _part(f"ONNX by tinygrad, on {', '.join(layer_lists.gpus())}", operators)
    yield from (f"{gpu}: {why}" for gpu, why in without.items())


def _part(title: str, names: tuple[str, ...]) -> Iterator[str]:
    if names:
        yield f"{title} ({len(names)}):"
        yield textwrap.fill(
            ", ".join(names), WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False
        )
