# SPDX-License-Identifier: BSD-2-Clause
"""How a search went: the best time that it had found, over its own time, as a table or as a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from host_tools.extras.speed.kernels.search import Step
from host_tools.support.cache import written_whole

WIDTH, HEIGHT, LEFT, RIGHT, TOP, GROUND = 640, 320, 64, 616, 40, 272
COLOUR = "#3b6ea5"


def follow(path: Path) -> Callable[[Sequence[Step]], None]:
    """What writes the file anew after each round, so that a search that is ended early leaves it, too."""
    made = table if path.suffix == ".csv" else drawn

    def write(steps: Sequence[Step]) -> None:
        with written_whole(path) as temporary:
            temporary.write_text(made(steps), encoding="utf-8")

    return write


def table(steps: Sequence[Step]) -> str:
    """Comma-separated: a row a round."""
    rows = [f"{step.turn},{step.seconds:.1f},{step.candidates},{step.us:.1f}" for step in steps]
    return "\n".join(["round,seconds,candidates,us", *rows, ""])


def drawn(steps: Sequence[Step]) -> str:
    """SVG: seconds to the right, milliseconds of a replay upwards, from 0."""
    longest = max([1.0, *(step.seconds for step in steps)])
    most = max([1.0, *(step.us for step in steps)])

    def x(step: Step) -> float:
        return LEFT + step.seconds / longest * (RIGHT - LEFT)

    def y(us: float) -> float:
        return GROUND - us / most * (GROUND - TOP)

    parts = []
    for share in (0.0, 0.5, 1.0):
        at = y(share * most)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{RIGHT}" stroke="#8888"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{share * most / 1e3:.4g} ms</text>')
    line = "".join(f"H{x(step):.1f}V{y(step.us):.1f}" for step in steps[1:])
    if steps:
        parts.append(f'<path d="M{x(steps[0]):.1f} {y(steps[0].us):.1f}{line}" fill="none" stroke="{COLOUR}"/>')
    parts += [f'<circle cx="{x(step):.1f}" cy="{y(step.us):.1f}" r="3" fill="{COLOUR}"/>' for step in steps]
    parts.append(f'<text x="{LEFT}" y="{GROUND + 20}">0 s</text>')
    parts.append(f'<text x="{RIGHT}" y="{GROUND + 20}" text-anchor="end">{longest:.0f} s of search</text>')
    parts.append(f'<text x="{LEFT}" y="20" font-weight="bold">Time of a replay by the model</text>')
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="#fff"/>\n'
        f"{body}\n</svg>\n"
    )
