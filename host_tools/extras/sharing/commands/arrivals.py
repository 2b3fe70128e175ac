# SPDX-License-Identifier: BSD-2-Clause
"""When requests come that `simulate` runs, as its options say."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from host_tools.commands.framework import UsageError
from host_tools.extras.sharing import sharing
from host_tools.extras.sharing.sharing import SECOND_US, Network, Request
from trace_format import limits
from trace_format.errors import GramophoneError, listed, printable
from trace_format.files import read_file


class ArrivalsError(GramophoneError):
    """A file of requests is malformed, or names networks that are not simulated."""


def known(option: str, name: str, names: Sequence[str]) -> str:
    """The name; UsageError: no trace has it."""
    if name not in names:
        raise UsageError(f"{option}: no trace is called {name!r}; there are: {listed(names)}")
    return name


def positive(option: str, text: str) -> float:
    """A number above 0; UsageError: it is none."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UsageError(f"{option}: expected a number above 0, found {text!r}")
    return value


class Asked:
    """When requests come.

    Attributes:
        random: other seeds give other requests.
    """

    def __init__(
        self, networks: Sequence[Network], duration_us: float, arrivals: str, periods: Mapping[int, float]
    ) -> None:
        self.networks, self.duration_us = networks, duration_us
        self.fixed: list[Request] = []
        self.rates = [0.0] * len(networks)
        free = [number for number in range(len(networks)) if number not in periods]
        kind, _, value = arrivals.partition(":")
        try:
            if kind == "load":
                share = positive("--arrivals", value) / len(networks)
                for number in free:
                    self.rates[number] = share / networks[number].alone_us * SECOND_US
            elif kind == "poisson":
                for number in free:
                    self.rates[number] = positive("--arrivals", value)
            elif free:
                self.fixed = from_file(Path(arrivals), [one.name for one in networks])
                self.fixed = [request for request in self.fixed if request.network in free]
            for number, period in periods.items():
                self.fixed += sharing.periodic(number, period, duration_us)
            sharing.poisson(self.rates, duration_us, 0)
        except ValueError as error:
            raise UsageError(f"--arrivals: {error}") from error
        self.random = any(self.rates)

    def requests(self, seed: int) -> list[Request]:
        """In their order."""
        return sorted([*self.fixed, *sharing.poisson(self.rates, self.duration_us, seed)])


def from_file(path: Path, names: Sequence[str]) -> list[Request]:
    """Requests of a CSV file with the columns us and network."""
    text = read_file(path, limits.SMALL_BYTES).decode("utf-8", "replace")
    rows = csv.DictReader(io.StringIO(text))
    if rows.fieldnames is None or not {"us", "network"} <= set(rows.fieldnames):
        found = printable(",".join(rows.fieldnames or ()))
        raise ArrivalsError(f"{path}: line 1: expected columns us and network, found {found!r}")
    found_rows = []
    for row in rows:
        try:
            at = float(row["us"] or "")
        except ValueError:
            at = -1.0
        if not 0 <= at < float("inf"):
            said = printable(str(row["us"]))
            raise ArrivalsError(f"{path}: line {rows.line_num}: expected microseconds, found {said!r}")
        if row["network"] not in names:
            said = printable(str(row["network"]))
            raise ArrivalsError(f"{path}: line {rows.line_num}: expected {listed(names)}, found {said!r}")
        found_rows.append(Request(at, names.index(row["network"])))
    return sorted(found_rows)
