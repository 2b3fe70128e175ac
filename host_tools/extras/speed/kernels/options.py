# SPDX-License-Identifier: BSD-2-Clause
"""Options of `record onnx` and others that search for faster kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from host_tools.commands.framework import FILE, Positive
from host_tools.commands.option_rules import requires
from host_tools.commands.streams import check_output

if TYPE_CHECKING:
    from host_tools.extras.speed.kernels.search import SearchedKernels


@click.option(
    "--search",
    type=click.FloatRange(0, 7 * 24 * 60),
    metavar="MINUTES",
    help="Search for faster kernels of tinygrad, by the time model, and keep them for later searches; 0 uses the "
    "kept kernels.",
)
@click.option(
    "--co-execute",
    "cpu_gflops",
    metavar="CPU_GFLOPS",
    type=Positive(),
    help="Search for kernels that are fast beside a CPU of this rate ('build --co-execute'). Requires --search.",
)
@click.option(
    "--search-plot",
    "plot",
    type=FILE,
    help="Plot the best result over the search's time: SVG, or a table if FILE ends in .csv. Requires --search.",
)
@requires("--co-execute", "--search")
@requires("--search-plot", "--search")
def searched_kernels(search: float | None, cpu_gflops: float | None, plot: Path | None) -> SearchedKernels | None:
    """What the options ask for."""
    if search is None:
        return None
    from host_tools.extras.speed.kernels.search import SearchedKernels
    from host_tools.extras.speed.kernels.search_plot import follow

    if plot is not None:
        check_output(plot)
    return SearchedKernels(search, follow=follow(plot) if plot else None, cpu_gflops=cpu_gflops)
