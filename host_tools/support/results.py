# SPDX-License-Identifier: BSD-2-Clause
"""What commands print with `--json`, as types: a class's fields are those of the JSON object, in this order.

    class Counted(Result):
        \"""How many actions a trace has.

        Attributes:
            actions: markers are left out.
        \"""

        file: str
        actions: Count
        jobs: Count | UnsetType = UNSET  # left out where it is UNSET; None is null

`host_tools.commands.schemas` makes JSON Schemas of them, with the docstrings as descriptions. Dataclasses may
be results and fields of them, too.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

HEX = "[0-9a-f]"

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(ge=0)]
Above = Annotated[float, Meta(gt=0)]
Part = Annotated[float, Meta(ge=0, le=1)]
Sha256 = Annotated[str, Meta(pattern=f"^{HEX}{{64}}$")]
Id = Annotated[str, Meta(pattern=f"^{HEX}{{32}}$")]  # of a key, a trace or a policy: half a SHA-256
Ids = Annotated[str, Meta(pattern=f"^{HEX}{{32}}(, {HEX}{{32}})*$")]  # where several have signed, those of all
Hex = Annotated[str, Meta(pattern=f"^({HEX}{{2}})*$")]


def one_of(*values: str) -> Meta:
    """Of a text: what it may be. Where checkers know its type, that is a `Literal`."""
    return Meta(extra_json_schema={"enum": list(values)})


class Result(msgspec.Struct, forbid_unknown_fields=True):
    """A JSON object, or a part of one."""


def fields(result: Any) -> dict[str, Any]:
    """What `json.dumps` takes."""
    found: dict[str, Any] = msgspec.to_builtins(result)
    return found
