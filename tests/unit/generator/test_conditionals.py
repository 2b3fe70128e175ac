# SPDX-License-Identifier: BSD-2-Clause
"""Conditionals on known macros are resolved as the C preprocessor resolves them, and nothing else is touched."""

from __future__ import annotations

import random
import shutil
import subprocess

import pytest

from tee_replayer.generator.conditionals import ConditionalError, resolve

KNOWN = ("A", "B", "C")
OPENINGS = (
    "#ifdef {}",
    "#ifndef {}",
    "#if defined {}",
    "#if defined({})",
    "#if !defined({})",
    "#  ifdef {} /* why */",
)


def _random(chance: random.Random, depth: int = 0) -> list[str]:
    """Lines of code, numbered by chance, and conditionals on known and on unknown macros."""
    lines = []
    for _ in range(chance.randrange(1, 4)):
        lines.append(f"int x{chance.randrange(1 << 30)};")
        if depth < 4 and chance.random() < 0.7:
            lines.append(chance.choice(OPENINGS).format(chance.choice((*KNOWN, "OTHER", "PORT"))))
            lines += _random(chance, depth + 1)
            if chance.random() < 0.5:
                lines += ["#else", *_random(chance, depth + 1)]
            lines.append("#endif /* it */")
    return lines


def _preprocessed(text: str, defined: tuple[str, ...]) -> list[str]:
    names = [f"-D{name}" for name in defined]
    done = subprocess.run(["cpp", "-P", *names], input=text, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.skipif(shutil.which("cpp") is None, reason="cpp is missing: apt-get install cpp")
@pytest.mark.parametrize("seed", range(25))
def test_it_is_what_the_preprocessor_does(seed: int) -> None:
    """With every setting of the macros that stay open; and of the known ones none is left."""
    chance = random.Random(seed)
    text = "\n".join(_random(chance)) + "\n"
    on = tuple(name for name in KNOWN if chance.random() < 0.5)
    found = resolve(text, KNOWN, on)
    assert not any(f" {name}" in line or f"({name}" in line for line in found.splitlines() for name in KNOWN)
    for others in ((), ("OTHER",), ("OTHER", "PORT")):
        assert _preprocessed(found, others) == _preprocessed(text, (*on, *others))


def test_what_is_open_stays_as_it_was() -> None:
    text = "#ifndef PORT /* a number */\n#define PORT 0\n#elif defined X && PORT > 1\n# else\n#endif\n"
    assert resolve(text, KNOWN, ("A",)) == text


@pytest.mark.parametrize(
    "text",
    [
        "#if defined A && defined OTHER\n#endif\n",
        "#if A > 1\n#endif\n",
        "#ifdef A\n#elif defined OTHER\n#endif\n",
        "#ifdef OTHER\n#elif defined A\n#endif\n",
        "#ifdef A\n",
        "#endif\n",
        "#else\n#endif\n",
    ],
)
def test_nothing_is_guessed(text: str) -> None:
    with pytest.raises(ConditionalError):
        resolve(text, KNOWN, ("A",))
