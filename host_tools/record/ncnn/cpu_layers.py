# SPDX-License-Identifier: BSD-2-Clause
"""The layers of a network that ncnn computes on the CPU: which these are, and where they stand.

They stand between those on the GPU, whose input they compute, or at the network's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ncnn

from host_tools.record.ncnn.cpu_operators import DETECTIONS, LAYERS, Shapes, Steps
from host_tools.record.ncnn.equivalents import hint, meant
from host_tools.record.ncnn.known_layers import known_layers
from host_tools.record.ncnn.param import Layer, WrongError, leading_to

# Layers that compute nothing by themselves.
WITHOUT_WORK = ("Input",)
INPUT = "Input"


@dataclass(frozen=True)
class Between:
    """What the CPU computes for the GPU.

    Attributes:
        steps: in order.
        taken: blobs that these read and none of them writes.
        returned: blobs that these write and the GPU reads.
    """

    steps: Steps = ()
    taken: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()

    @property
    def written(self) -> tuple[str, ...]:
        """All blobs that these write."""
        return tuple(blob for step in self.steps for blob in step.results)


@dataclass(frozen=True)
class CpuEnd:
    """What is left to the CPU.

    Attributes:
        steps: at the end, in order; none where the GPU computes what comes last.
        outputs: blobs that are the network's, or were asked for; empty: all that ncnn gives.
        until: blobs that are there before these steps, `outputs` where there are none.
        between: what the CPU computes before that.
    """

    steps: Steps = ()
    outputs: tuple[str, ...] = ()
    until: tuple[str, ...] = ()
    between: Between = Between()

    @property
    def asked(self) -> tuple[str, ...]:
        """Blobs that tell all of that, in an order in which nothing but what the network does is done for them.

        What the CPU has read or written ncnn keeps, so what layers read comes after what they write.
        """
        between = [blob for step in self.between.steps for blob in (*step.results, *step.layer.bottoms)]
        return tuple(dict.fromkeys([*between, *self.until])) if self.until else ()


def layers_on_cpu(layers: Sequence[Layer]) -> list[Layer]:
    """The layers that ncnn has no code on GPUs for.

    Raises:
        WrongError: one has no operator, or no trace can have it where it stands; names each such layer.
    """
    slow = [
        layer
        for layer in layers
        if layer.type not in WITHOUT_WORK and not getattr(ncnn.create_layer(layer.type), "support_vulkan", False)
    ]
    given = {top for layer in layers if layer.type == INPUT for top in layer.tops}
    boxes = {top for layer in slow if layer.type in DETECTIONS for top in layer.tops}
    wrong = []
    for layer in slow:
        after = next((x for x in layers if x not in slow and boxes & set(x.bottoms) & set(layer.tops)), None)
        if layer.type not in LAYERS:
            wrong.append(f"{layer.place}, which no operator of a trace computes{hint(layer.type)}")
        elif after is not None:
            wrong.append(f"{layer.place}, whose result is of varying size and goes to the GPU, to {after.place}")
        elif taken := sorted(given & set(layer.bottoms)):
            never = f"whose input {taken[0]!r} never reaches the GPU"
            wrong.append(f"{layer.place}, {never}{hint(layer.type)}")
        elif taken := sorted(boxes & set(layer.bottoms)):
            wrong.append(f"{layer.place}, whose input {taken[0]!r} is of varying size")
    if wrong:
        raise WrongError(
            f"ncnn {ncnn.__version__} computes on the CPU, for lack of Vulkan code, and the GPU's work cannot be "
            f"recorded around it: {'; '.join(wrong[:8])}{'; ...' if len(wrong) > 8 else ''}"
        )
    return slow


def _leading_to_gpu(slow: Sequence[Layer], read_by_gpu: set[str]) -> list[Layer]:
    """Those on the CPU whose results reach the GPU, in order."""
    read = set(read_by_gpu)
    found: list[Layer] = []
    for layer in reversed(slow):
        if read & set(layer.tops):
            found.insert(0, layer)
            read |= set(layer.bottoms)
    return found


def cpu_end(layers: list[Layer], until: Sequence[str], shapes: Shapes) -> CpuEnd:
    """What the CPU has to compute, and up to where the GPU computes.

    Args:
        layers: of the .param file.
        until: blobs that are to be computed; empty: all outputs of the network.
        shapes: of the blobs that `blobs_of_interest` names.

    Raises:
        WrongError: a layer that no operator computes, or an option or shape of one.
    """
    layers = leading_to(layers, list(until))
    slow = layers_on_cpu(layers)
    if not slow:
        return CpuEnd((), tuple(until), tuple(until))
    read = {blob for layer in layers for blob in layer.bottoms}
    outputs = list(until) or [top for layer in layers for top in layer.tops if top not in read]
    by_gpu = {blob for layer in layers if layer not in slow for blob in layer.bottoms}
    middle = _leading_to_gpu(slow, by_gpu)
    last = [layer for layer in slow if layer not in middle]
    written = {top for layer in last for top in layer.tops}
    needed = [blob for layer in last for blob in layer.bottoms] + outputs
    before = tuple(dict.fromkeys(blob for blob in needed if blob not in written))
    return CpuEnd(_steps(last, shapes), tuple(outputs), before, _between(middle, by_gpu, shapes))


def _steps(layers: Sequence[Layer], shapes: Shapes) -> Steps:
    return tuple(step for layer in layers for step in LAYERS[layer.type](layer, shapes))


def _between(middle: Sequence[Layer], read_by_gpu: set[str], shapes: Shapes) -> Between:
    written = [top for layer in middle for top in layer.tops]
    taken = dict.fromkeys(blob for layer in middle for blob in layer.bottoms if blob not in written)
    returned = tuple(blob for blob in written if blob in read_by_gpu)
    return Between(_steps(middle, shapes), tuple(taken), returned)


def blobs_of_interest(slow: Sequence[Layer]) -> list[str]:
    """Blobs whose shapes say what operators work on."""
    tops = [top for layer in slow if layer.type not in DETECTIONS for top in layer.tops]
    return list(dict.fromkeys([blob for layer in slow for blob in layer.bottoms] + tops))


def check_known(layers: Sequence[Layer]) -> None:
    """Raise WrongError if ncnn does not know a layer."""
    for layer in layers:
        if ncnn.layer_to_index(layer.type) < 0:
            near = meant(layer.type, known_layers())
            raise WrongError(f"{layer}: ncnn {ncnn.__version__} has no layer of this type{near}")
