# SPDX-License-Identifier: BSD-2-Clause
"""Types of what several commands print with `--json`. Those of one command stand beside it."""

from __future__ import annotations

from typing import Annotated

from host_tools.support.results import Ids, Result, one_of
from signing import keys

AlgorithmName = Annotated[str, one_of(*(algorithm.title for algorithm in keys.Algorithm))]


class Claim(Result):
    """Who claims to have signed a trace; not verified."""

    algorithm: AlgorithmName
    key_id: Ids
