# SPDX-License-Identifier: BSD-2-Clause
"""What the analyses ask of a graph: cycles, and what can be reached without passing some places."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def cycles(nodes: Iterable[T], successors: Callable[[T], Iterable[T]]) -> Iterator[set[T]]:
    """The strongly connected components that have a cycle (Tarjan 1972, without recursion)."""
    inside = set(nodes)
    index: dict[T, int] = {}
    low: dict[T, int] = {}
    stack: list[T] = []
    on_stack: set[T] = set()
    for root in list(inside):
        if root in index:
            continue
        work = [(root, iter([to for to in successors(root) if to in inside]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for to in rest:
                if to not in index:
                    index[to] = low[to] = len(index)
                    stack.append(to)
                    on_stack.add(to)
                    work.append((to, iter([other for other in successors(to) if other in inside])))
                    break
                if to in on_stack:
                    low[node] = min(low[node], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = set()
                    while node not in component:
                        component.add(found := stack.pop())
                        on_stack.discard(found)
                    if len(component) > 1 or node in set(successors(node)):
                        yield component


def reachable(starts: Iterable[T], successors: Callable[[T], Iterable[T]], without: Collection[T] = ()) -> set[T]:
    """Nodes that can be reached from `starts`, these included, without passing any of `without`."""
    seen: set[T] = set()
    pending = [node for node in starts if node not in without]
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            pending += [to for to in successors(node) if to not in seen and to not in without]
    return seen
