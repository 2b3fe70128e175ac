# SPDX-License-Identifier: BSD-2-Clause
"""A plot of late requests, as SVG: a group of bars a policy, a bar a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, GROUND = 640, 320, 52, 56, 272
COLOURS = ("#3b6ea5", "#d98c3f", "#5a9367", "#a55d87", "#7c7c7c")
LEAST = 0.01  # share that the axis has at least


@dataclass(frozen=True)
class Bars:
    """A policy, and of each network the share of requests that were late."""

    policy: str
    late: Sequence[float]


def drawn(title: str, networks: Sequence[str], groups: Sequence[Bars]) -> str:
    """The plot."""
    most = max([LEAST, *(late for group in groups for late in group.late)])
    wide = (WIDTH - LEFT) / max(1, len(groups))
    bar = 0.8 * wide / max(1, len(networks))
    parts = [_text(LEFT, 20, title, "bold")]
    for number, name in enumerate(networks):
        x = LEFT + number * (WIDTH - LEFT) / len(networks)
        parts.append(_box(x, 30, 12, 12, number))
        parts.append(_text(x + 18, 41, name))
    for share in (0.0, 0.5, 1.0):
        y = GROUND - share * (GROUND - TOP)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH}" stroke="#8888"/>')
        parts.append(_text(LEFT - 6, y + 4, f"{100 * most * share:.3g} %", anchor="end"))
    for at, group in enumerate(groups):
        left = LEFT + at * wide + 0.1 * wide
        for number, late in enumerate(group.late):
            tall = late / most * (GROUND - TOP)
            parts.append(_box(left + number * bar, GROUND - tall, bar * 0.92, tall, number))
        parts.append(_text(left + 0.4 * wide, GROUND + 20, group.policy, anchor="middle"))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="#fff"/>\n'
        f"{body}\n</svg>\n"
    )


def _box(x: float, y: float, width: float, height: float, number: int) -> str:
    colour = COLOURS[number % len(COLOURS)]
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def _text(x: float, y: float, text: str, weight: str = "normal", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-weight="{weight}" text-anchor="{anchor}">{escape(text)}</text>'
