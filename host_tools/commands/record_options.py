# SPDX-License-Identifier: BSD-2-Clause
"""What the commands that record have in common: options, checks, what they say of the trace."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click
from msgspec import UNSET, UnsetType

from host_tools.commands.facts import TraceMade, facts
from host_tools.commands.framework import Outcome, UsageError
from host_tools.commands.streams import write
from host_tools.machine.placements import BOOT_TIMEOUT_S, PLACEMENTS
from host_tools.record.tolerances import FP16_TOLERANCE, INT8_TOLERANCE
from host_tools.record.tolerances import TOLERANCE as FP32_TOLERANCE
from host_tools.support.gpu_folders import DEFAULT_GPU
from host_tools.support.results import one_of
from trace_format import profile

if TYPE_CHECKING:  # help waits for no NumPy
    from trace_format.trace import Trace

GPU = click.option(
    "--gpu",
    default=DEFAULT_GPU,
    show_default=True,
    type=click.Choice([name for name in profile.names() if name in PLACEMENTS]),
    help="Virtual GPU to record on.",
)
TIMEOUT = click.option(
    "--timeout",
    type=click.FloatRange(1),
    default=BOOT_TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of a guest run.",
)

SNAPSHOT = click.option(
    "--snapshot", metavar="DATE", help="Take the guest's packages of this day (UTC) from snapshot.debian.org."
)

TOLERANCE = click.option(
    "--tolerance",
    type=float,
    help="Largest difference from the CPU's result, relative to the largest value. "
    f"Default: {FP32_TOLERANCE:g}; {FP16_TOLERANCE:g} for half precision; {INT8_TOLERANCE:g} for int8 weights.",
)
FP16 = click.option(
    "--fp16", is_flag=True, help="Keep weights and activations in half precision; compute in single precision."
)


CHECK = click.option(
    "--no-check",
    "check",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Skip the comparing replay; the recording's notes say so.",
)


class Shape(click.ParamType[Any]):
    """NAME=1x28x28."""

    name = "NAME=SHAPE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        match = re.fullmatch(r"([^=]+)=(\d+(?:[x,]\d+)*)", str(value))
        if match is None:
            self.fail(
                f"expected NAME=SHAPE such as data=1x28x28 (channels, height, width), found {value!r}", param, ctx
            )
        shape = tuple(int(n) for n in re.split("[x,]", match[2]))
        if 0 in shape or len(shape) > 4:
            self.fail(f"expected 1 to 4 dimensions of at least 1, found {value!r}", param, ctx)
        return match[1], shape


class Recorded(TraceMade, kw_only=True):
    """A recording that was made.

    Attributes:
        compute: Whether the virtual GPU executes shaders: with none, outputs are not results.
        snapshot: Snapshot of Debian's archive that the guest's packages are of.
        precision: What the GPU computes in or keeps beside float32.
        unchanged: Nothing was recorded: --if-changed, and the file is what it would be.
    """

    compute: Annotated[str, one_of("full", "none")]
    snapshot: str | None
    precision: list[Literal["int8", "fp16"]]
    unchanged: Literal[True] | UnsetType = UNSET


SHAPES = click.option(
    "--shape",
    "shapes",
    type=Shape(),
    multiple=True,
    required=True,
    help="Input blob and its shape, slowest dimension first; repeatable.",
)


def check_network(shapes: Sequence[tuple[str, tuple[int, ...]]], tolerance: float | None) -> None:
    """Refuse options of a network that contradict themselves.

    Raises:
        UsageError: a shape is given twice, or the tolerance is not a number from 0.
    """
    if len(dict(shapes)) != len(shapes):
        raise UsageError("the shape of an input is given twice")
    if tolerance is not None and not 0 <= tolerance < math.inf:
        raise UsageError(f"--tolerance: expected a number from 0, found {tolerance}")


def written(trace: Trace, output: Path, stamp: str) -> Outcome[Recorded]:
    """Write a recording; stamp: of the snapshot that the guest's packages are of, if one was named."""
    from host_tools.runners.replay import FULL

    data = trace.build(compress=False)
    write(output, data)
    text = (
        f"{output}: {len(data)} bytes, {trace.jobs} jobs, {len(trace.actions)} actions, {len(trace.slots)} slots"
    )
    if stamp:
        text += f"\npackages: snapshot.debian.org as of {stamp}"
    precision = trace.notes.get("precision", [])
    if precision:
        text += f"\nprecision: {', '.join(precision)}; what is neither is float32"
    made = Recorded(
        **facts(trace), trace_bytes=len(data), compute=FULL, snapshot=stamp or None, precision=precision
    )
    return Outcome(made, text)
