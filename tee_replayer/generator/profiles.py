# SPDX-License-Identifier: BSD-2-Clause
"""The features of a replayer, and the profiles: the sets of them that are supported (tee_replayer/profiles.toml).

A table of features has a key for each: `true`, or what there is to say of it.

    trust = true
    networks = 4                 # most networks of a joint trace
    operators = ["copy"]         # true: all
    evidence = ["hashes"]        # true: the log alone; "hashes" of inputs and outputs, "attestations"
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from signing.trust import Policy
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.options import MAX_REQUESTS, NO_EVIDENCE, Options
from trace_format.errors import TraceError, listed, meant
from trace_format.files import read_file
from trace_format.operators import OPERATORS, Operator
from trace_format.schema import MAX_NETWORKS
from trace_format.toml_table import Table, loads

FILE = Path(__file__).resolve().parents[1] / "profiles.toml"
UNTESTED = "untested combination"
_EVIDENCE = ("hashes", "attestations")
# Feature -> those that it requires, and those that it cannot be combined with.
_REQUIRES = {"schedule": ("networks", "steps"), "clock": ("trust",)}
_EXCLUDES = {"evidence": ("networks",)}  # a replay log does not say which of several networks ran


class FeatureError(TraceError):
    """A profile that does not exist, or features that cannot be combined."""


@dataclass(frozen=True)
class Features:
    """A set of features; a false value is a feature that is not there.

    Attributes:
        trust: a trust policy says who signs, not one key.
        encryption: it decrypts traces.
        networks: of a joint trace at most.
        steps: replays can stop between jobs.
        schedule: requests that can wait.
        operators: what it computes on the CPU.
        evidence: what it says of its replays.
        store: versions outlive a reboot.
        clock: it asks the board's clock.
        streaming: it reads pieces of a trace while jobs run.
    """

    trust: bool = False
    encryption: bool = False
    networks: int = 0
    steps: bool = False
    schedule: int = 0
    operators: tuple[Operator, ...] = ()
    evidence: Evidence = NO_EVIDENCE
    store: bool = False
    clock: bool = False
    streaming: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The features that are there, in the order of NAMES."""
        return tuple(name for name in NAMES if getattr(self, name) not in (False, 0, (), NO_EVIDENCE))

    @property
    def profile(self) -> str:
        """Name of the profile with the same features; "" where there is none: an untested combination."""
        return next((row.name for row in load().values() if row.features.names == self.names), "")

    @property
    def words(self) -> str:
        """For notes and reports: `profile fleet: trust, evidence, store`, or that no profile has them."""
        title = f"profile {self.profile}" if self.profile else UNTESTED
        return f"{title}: {', '.join(self.names) or 'no feature'}"

    @property
    def rows(self) -> dict[str, Any]:
        """As a table of TOML."""
        found: dict[str, Any] = {name: getattr(self, name) for name in self.names}
        if self.operators:
            found["operators"] = [OPERATORS[operator].name for operator in self.operators]
        if self.evidence.log:
            chosen = zip(_EVIDENCE, (self.evidence.hashes, self.evidence.attestation), strict=True)
            found["evidence"] = [name for name, wanted in chosen if wanted] or True
        return found

    @property
    def options(self) -> dict[str, Any]:
        """As keywords of `Options`; trust and encryption follow from its keys."""
        found = {name: getattr(self, name) for name in ("networks", "steps", "schedule", "operators", "evidence")}
        return found | {"rollback_store": self.store, "clock": self.clock, "streaming": self.streaming}


NAMES = tuple(row.name for row in fields(Features))


@dataclass(frozen=True)
class Profile:
    """A supported set of features: its name, what it is for, and the features with what is said of them."""

    name: str
    use: str
    features: Features


@functools.cache
def load() -> Mapping[str, Profile]:
    """All profiles, by name."""
    top = Table(loads(read_file(FILE), FeatureError, FILE.name), "", FeatureError)
    found = {}
    for name in list(top.rows):
        table = top.table(name)
        use, features = table.text("use"), read(table.table("features", {}))
        table.end()
        found[name] = Profile(name, use, features)
    return found


def named(name: str) -> Profile:
    """A profile; FeatureError where there is none of this name."""
    if name not in load():
        raise FeatureError(
            f"profile{meant(name, load())}", expected=f"one of {listed(load(), 20)}", found=repr(name)
        )
    return load()[name]


def of_options(options: Options) -> Features:
    """The features of a replayer."""
    return Features(
        isinstance(options.key, Policy),
        options.decryption.wanted,
        options.networks,
        options.steps or bool(options.schedule),
        options.schedule,
        tuple(operator for operator in OPERATORS if operator in options.operators),
        options.evidence,
        options.rollback_store,
        options.clock,
        options.streaming,
    )


def read(table: Table, base: Profile | None = None) -> Features:
    """The features in a table, all of which are read.

    Args:
        table: of the form above.
        base: the profile that the table says more of: values of its features.

    Raises:
        FeatureError: an unknown or missing feature, a value of another type, or features that exclude each other.
    """
    rows: dict[str, Any] = dict(base.features.rows) if base else {}
    for name in list(table.rows):
        if name not in NAMES:
            raise table.fail(f"unknown feature {name}{meant(name, NAMES)}", f"some of {', '.join(NAMES)}")
        if base and name not in rows:
            has = ", ".join(rows) or "no feature"
            raise table.fail(f"{name}: the profile {base.name} has {has}; leave 'profile' out for other features")
        rows[name] = table.rows.pop(name)
    values: dict[str, Any] = {name: _VALUES.get(name, _flag)(table, name, value) for name, value in rows.items()}
    for name in rows:
        for other in _REQUIRES.get(name, ()):
            if other not in rows:
                raise table.fail(f"{name} requires {other}")
        for other in _EXCLUDES.get(name, ()):
            if other in rows:
                raise table.fail(f"{name} and {other} are mutually exclusive")
    return Features(**values)


def _flag(table: Table, name: str, value: object) -> bool:
    if value is not True:
        raise table.fail(name, "true, or no such key", shown(value))
    return True


def _number(table: Table, name: str, value: object) -> int:
    least, most = {"networks": (2, MAX_NETWORKS), "schedule": (1, MAX_REQUESTS)}[name]
    if type(value) is not int or not least <= value <= most:
        raise table.fail(name, f"a number from {least} to {most}", shown(value))
    return value


def choices(table: Table, name: str, value: object, known: tuple[str, ...]) -> tuple[str, ...]:
    """A list of some of the known names, in their order."""
    if type(value) is not list or not value:
        raise table.fail(name, f"a list of some of {', '.join(known)}", shown(value))
    for item in value:
        if item not in known:
            near = meant(item, known) if type(item) is str else ""
            raise table.fail(f"{name}{near}", f"a list of some of {', '.join(known)}", shown(item))
    return tuple(item for item in known if item in value)


def _operators(table: Table, name: str, value: object) -> tuple[Operator, ...]:
    every = {row.name: operator for operator, row in OPERATORS.items()}
    chosen = tuple(every) if value is True else choices(table, name, value, tuple(every))
    return tuple(every[row] for row in chosen)


def _evidence(table: Table, name: str, value: object) -> Evidence:
    chosen = () if value is True else choices(table, name, value, _EVIDENCE)
    return Evidence(True, *(row in chosen for row in _EVIDENCE))


def shown(value: object) -> str:
    """A value for a message, as TOML has it."""
    return str(value).lower() if type(value) is bool else repr(value)


_VALUES = {"networks": _number, "schedule": _number, "operators": _operators, "evidence": _evidence}
