# SPDX-License-Identifier: BSD-2-Clause
"""Print each finding with its place; exit status 1 if there is one.

python -m tests.plain_english
"""

from __future__ import annotations

import sys
from collections import Counter

from tests.plain_english.texts import everything


def main() -> int:
    """The check."""
    found = list(everything())
    for place, rule, sentence in found:
        print(f"{place}: {rule}: {sentence}")
    if found:
        counts = Counter(rule.partition(" (")[0] for _, rule, _ in found)
        print(f"{len(found)} findings: " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
