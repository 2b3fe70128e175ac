# SPDX-License-Identifier: BSD-2-Clause
"""What goes with a signed trace when it is published: statements of provenance, bills of materials, SUIT
envelopes, TUF repositories, proofs of transparency logs. For model owners whose users ask where a trace comes
from, and if it is the newest.

Not in here: signatures and trust policies, without which nothing is published (`signing`).

Read first: statement.py
"""

from __future__ import annotations

from host_tools.extras import Extra, LazyCommand

EXTRA = Extra(
    "publish",
    "Publish a trace: provenance, bills of materials, SUIT, TUF.",
    {
        "publish provenance": LazyCommand(
            "host_tools.extras.publish.commands.provenance:provenance",
            "Write a signed statement of a trace's provenance.",
        ),
        "publish sbom": LazyCommand(
            "host_tools.extras.publish.commands.sbom:sbom",
            "Write a bill of materials (SBOM, CycloneDX 1.6).",
        ),
        "publish suit": LazyCommand(
            "host_tools.extras.publish.commands.suit:suit_group",
            "Put a signed trace into a SUIT envelope, or take it out.",
        ),
        "publish tuf": LazyCommand(
            "host_tools.extras.publish.commands.tuf:tuf_group",
            "Publish traces and trust policies in a TUF repository.",
        ),
        "verify provenance": LazyCommand(
            "host_tools.extras.publish.commands.provenance:verify_provenance",
            "Verify a signed statement of a trace's provenance.",
        ),
    },
    readers=["host_tools.extras.publish.kinds:identify"],
    additions={"judges": "host_tools.extras.publish.commands.transparency:log_judge"},
    example="gramophone publish sbom net.sgtr -o net.cdx.json",
    renamed={
        "provenance": "publish provenance",
        "sbom": "publish sbom",
        "suit": "publish suit",
        "tuf": "publish tuf",
        "verify-provenance": "verify provenance",
    },
)
