# SPDX-License-Identifier: BSD-2-Clause
"""Options of commands that run a trace to show what it does: `report` and `open`."""

from __future__ import annotations

import click

from host_tools.commands.framework import FILE
from host_tools.support.tensors import Assignment

KEYS = click.option("--key", type=FILE, multiple=True, help="Trusted public key (PEM); repeatable.")
RUN_INPUTS = click.option(
    "--input", "inputs", type=Assignment(folders=True), multiple=True, help="Value of an input slot in the run."
)
RUN_PARAMETERS = click.option(
    "--param",
    "parameters",
    type=Assignment(folders=True),
    multiple=True,
    help="Value of a parameter slot in the run.",
)
