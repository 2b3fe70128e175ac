# SPDX-License-Identifier: BSD-2-Clause
"""What the other networks of a joint trace reach of one of them: what its owner wants to know before signing.

Working memory, page tables, slots and kept values are a network's own, by the format; what is not, is here.
docs/adr/0065-joined-networks.md has the whole list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from host_tools.model.left_registers import left_registers
from host_tools.model.parts import image_pages
from trace_format.network import Network
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace


@dataclass(frozen=True)
class Reach:
    """What another network reaches.

    Attributes:
        network: the other one.
        pages: of the owner's image, those of which it reaches the content.
        zero_pages: of these, those that hold nothing but zeros.
        registers: that the owner's network finds as the other has left them.
    """

    network: Network
    pages: int
    zero_pages: int
    registers: tuple[str, ...]


def reached(whole: Trace, network: Network, own: Trace) -> Iterator[Reach]:
    """What each other network of a joint trace reaches.

    Pages count by their content, wherever in the joint image it lies.

    Args:
        whole: the joint trace.
        network: of it.
        own: the owner's trace, as it was before it was joined.
    """
    pages = image_pages(whole.image)
    left = list(left_registers(whole))
    owned = image_pages(own.image)
    for other in whole.networks:
        if other == network:
            continue
        seen = {page for first, end in other.image for page in pages[first:end]}
        shared = [page for page in owned if page in seen]
        names = tuple(name for finds, leaves, name in left if finds == network and leaves == other)
        yield Reach(other, len(shared), shared.count(bytes(PAGE_BYTES)), names)
