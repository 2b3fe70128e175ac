# SPDX-License-Identifier: BSD-2-Clause
"""Features of a replayer, from the deadline order to the rollback store: a folder and a row here for each feature.
Callers and ports see NAME_api.h; the core calls the hooks of NAME.h, which are empty where the feature is absent.
core/features_api.h and core/features_hooks.h include them: no C file of the core has a conditional.

Not in here: what a generated replayer has (`tee_replayer.generator.options`).

Read first: networks/networks.h
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tee_replayer.generator.status import CORE as CORE

HERE = Path(__file__).resolve().parent
# In reading order; memory.c, which the first ones use as well, is with those that take memory.
_CORE_SOURCES = (
    *("lz4.c", "stream.c", "check.c", "slots.c", "memory.c", "known.c", "one_key.c", "envelope.c", "load.c"),
    *("run.c", "attempts.c"),
)


@dataclass(frozen=True)
class Feature:
    """A row.

    Attributes:
        name: of the folder.
        macro: that a replayer with it defines.
        sources: its C files, in reading order; those of operators and evidence that a replayer has depend on more.
        instead_of: file of the core whose place it takes.
        header: of its own, which its sources share.
    """

    name: str
    macro: str
    sources: tuple[str, ...] = ()
    instead_of: str = ""
    header: str = ""


FEATURES = (
    Feature("networks", "GRAMOPHONE_NETWORKS", ("reach.c", "networks.c")),
    Feature("command_streams", "GRAMOPHONE_COMMAND_STREAMS"),
    Feature("operators", "GRAMOPHONE_OPERATORS", ("operate.c",), header="operands.h"),
    Feature("trust", "GRAMOPHONE_TRUST", ("policy.c", "cose.c", "trust.c"), "one_key.c", "trust_policy.h"),
    Feature("streaming", "GRAMOPHONE_STREAMING", ("streaming.c",)),
    Feature("clock", "GRAMOPHONE_CLOCK"),
    Feature("encryption", "GRAMOPHONE_ENCRYPTION", ("encryption.c",)),
    Feature("steps", "GRAMOPHONE_STEPS", ("steps.c",), "attempts.c"),
    Feature("schedule", "GRAMOPHONE_SCHEDULE", ("schedule.c",)),
    Feature("store", "GRAMOPHONE_STORE"),
    Feature("evidence", "GRAMOPHONE_LOG"),
)


def sources(on: Collection[str]) -> tuple[Path, ...]:
    """The C files of the core and of its features that a replayer has, in reading order.

    Args:
        on: macros of its features.
    """
    found = [feature for feature in FEATURES if feature.macro in on]
    replaced = {feature.instead_of for feature in found}
    core = [CORE / name for name in _CORE_SOURCES if name not in replaced]
    assert {path.name for path in CORE.glob("*.c")} == {*_CORE_SOURCES}
    return (*core, *(HERE / feature.name / name for feature in found for name in feature.sources))


def headers() -> list[Path]:
    """All headers of features."""
    return sorted(HERE.glob("*/*.h"))
