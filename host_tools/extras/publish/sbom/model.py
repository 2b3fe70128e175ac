# SPDX-License-Identifier: BSD-2-Clause
"""The bill of materials of a trace: a machine learning model with its card, and what it was recorded with.

All of it is what the trace says of itself, in its manifest and its notes; nothing is verified here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.component import Component, ComponentScope, ComponentType

from host_tools.extras.publish.sbom.document import Bill, properties
from host_tools.model.origins import Kind, origins
from signing import encryption
from signing.delivery import Delivery
from trace_format.schema import SIGNED_MAGIC, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

_STACK = {
    Kind.RECORDER: ComponentType.APPLICATION,
    Kind.KERNEL: ComponentType.OPERATING_SYSTEM,
    Kind.DRIVER: ComponentType.DEVICE_DRIVER,
    Kind.FRAMEWORK: ComponentType.FRAMEWORK,
}


def bill(data: bytes, file: str) -> Bill:
    """What a trace is made of.

    Args:
        data: the whole file, signed or not.
        file: its name, for errors.

    Raises:
        TraceError: it is no trace.
    """
    signed = Delivery(data).signed if data.startswith(SIGNED_MAGIC) else None
    trace = encryption.parse(signed.trace if signed else data, file)
    meta = Trace.META_DEFAULTS | trace.meta
    facts = {
        "trace_id": trace.trace_id.hex(),
        "gpu": trace.gpu,
        "security_version": str(meta["security_version"]),
        "jobs": str(trace.jobs),
        "carveout_bytes": str(trace.carveout_bytes),
        "unsigned_parameters": str(sum(slot.kind is SlotKind.PARAMETER for slot in trace.slots)),
        **({"source_sha256": meta["source_hash"].hex()} if any(meta["source_hash"]) else {}),
        **({"passes": " ".join(map(str, _list(trace, "passes")))} if _list(trace, "passes") else {}),
        **({"claimed_signed_by": signed.signed_by} if signed else {}),
    }
    subject = Component(
        name=str(meta["name"]) or "trace",
        version=trace.trace_id.hex(),
        type=ComponentType.MACHINE_LEARNING_MODEL,
        description=f"Gramophone trace for {trace.profile.title}",
        bom_ref="trace",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(data).hexdigest())],
        properties=properties(facts),
    )
    return Bill(subject, list(_components(trace)), card=_card(trace))


def _card(trace: Trace) -> dict[str, Any]:
    """What goes in and out, as CycloneDX's model card has it."""

    def formats(*kinds: SlotKind) -> list[dict[str, str]]:
        return [{"format": f"{slot.name}: {_format(slot)}"} for slot in trace.slots if slot.kind in kinds]

    return {
        "modelParameters": {
            "inputs": formats(SlotKind.INPUT, SlotKind.PARAMETER),
            "outputs": formats(SlotKind.OUTPUT),
        }
    }


def _format(slot: Slot) -> str:
    return f"{slot.dtype.name.lower()}[{','.join(map(str, slot.tensor_shape))}]"


def _components(trace: Trace) -> Iterator[Component]:
    for origin in origins(trace):
        if origin.kind is Kind.RECORDING:
            continue  # a fact of the subject, which is made of it alone
        if origin.kind is Kind.SOURCE:
            yield Component(
                name=origin.name,
                type=ComponentType.DATA,
                bom_ref=f"source:{origin.name}",
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=origin.sha256 or "")],
            )
        elif origin.kind is Kind.PACKAGE:
            yield Component(
                name=origin.name,
                version=origin.version,
                type=ComponentType.LIBRARY,
                bom_ref=f"package:{origin.name}",
                purl=origin.purl,
                scope=ComponentScope.EXCLUDED,
            )
        else:
            yield Component(
                name=origin.name,
                version=origin.version,
                type=_STACK[origin.kind],
                description=f"{origin.kind}: {origin.claim}",
                bom_ref=f"manifest:{origin.kind}",
                scope=ComponentScope.EXCLUDED,
            )


def _list(trace: Trace, name: str) -> list[Any]:
    found = trace.notes.get(name)
    return found if isinstance(found, list) else []
