# SPDX-License-Identifier: BSD-2-Clause
"""`--exhaustive`: tests of many like cases try all of them; without it, a sample.

The sample is the same every time: the first and the last case, and others evenly between them. What was left out
is listed at the end of the run. A test states what it may leave out in one of these ways:

- the fixture `some_of` picks from cases that one test tries in a loop;
- `@pytest.mark.sampled(N)` lets N of a test's parametrized cases run;
- `@pytest.mark.exhaustive` leaves out the test or the case itself;
- property tests that name no number of examples try 40, the same ones every time, and 200 other ones with it;
  what others try, `few` says.

Only tests whose cases all take the same paths may be sampled; docs/TESTING.md has the coverage of both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")
PROPERTY = "sampled"
EXAMPLES, ALL_EXAMPLES = 40, 200  # of a property test that names no number


class How(Protocol):
    """Picks so many of cases."""

    def __call__(self, cases: Sequence[T], most: int, /) -> Sequence[T]: ...


class SomeOf(Protocol):
    """At most `most` of the cases, spread evenly, the ends among them, or as `how` picks them; all of them with
    `--exhaustive`."""

    def __call__(self, cases: Sequence[T], most: int, how: How = ...) -> Sequence[T]: ...


def spread(cases: Sequence[T], most: int) -> list[T]:
    """`most` of the cases: the first, the last and others evenly between them."""
    if len(cases) <= most:
        return list(cases)
    if most == 1:
        return [cases[0]]
    last = len(cases) - 1
    return [cases[i * last // (most - 1)] for i in range(most)]


def few(count: int, whole: int = ALL_EXAMPLES, **more: Any) -> settings:
    """For a property test: so many examples, with `--exhaustive` `whole`; `more` are other settings."""
    is_exhaustive = settings.default is not None and settings.default.max_examples == ALL_EXAMPLES
    return settings(max_examples=whole if is_exhaustive else count, **more)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--exhaustive", action="store_true", help="Try all cases of tests that otherwise try a sample."
    )


def pytest_configure(config: pytest.Config) -> None:
    exhaustive = config.getoption("--exhaustive")
    # Tests are not timed: the machine is shared. The sample is the same every time.
    settings.register_profile(
        "gramophone",
        deadline=None,
        max_examples=ALL_EXAMPLES if exhaustive else EXAMPLES,
        derandomize=not exhaustive,
    )
    settings.load_profile("gramophone")
    config.addinivalue_line("markers", "exhaustive: runs with --exhaustive only")
    config.addinivalue_line(
        "markers", "sampled(most): without --exhaustive, so many of the parametrized cases run"
    )


@pytest.fixture
def some_of(request: pytest.FixtureRequest) -> SomeOf:
    """Picks the cases that a test tries; see SomeOf."""
    exhaustive = request.config.getoption("--exhaustive")

    def pick(cases: Sequence[T], most: int, how: How = spread) -> Sequence[T]:
        if exhaustive or len(cases) <= most:
            return cases
        request.node.user_properties.append((PROPERTY, f"{most:,} of {len(cases):,} cases"))
        return how(cases, most)

    return pick


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what the two markers leave out."""
    if config.getoption("--exhaustive"):
        return
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled"):
            tests[item.nodeid.partition("[")[0]].append(item)
    left_out = {item for item in items if item.get_closest_marker("exhaustive")}
    for cases in tests.values():
        marker = cases[0].get_closest_marker("sampled")
        assert marker is not None
        kept = spread(cases, marker.args[0])
        left_out.update(set(cases) - set(kept))
        if len(kept) < len(cases):
            kept[0].user_properties.append((PROPERTY, f"{len(kept):,} of {len(cases):,} cases"))
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=sorted(left_out, key=lambda item: item.nodeid))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = sorted(
        f"{report.nodeid}: {value}"
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name == PROPERTY
    )
    if lines:
        terminalreporter.section("sampled (all cases with --exhaustive)")
        for line in lines:
            terminalreporter.line(line)
