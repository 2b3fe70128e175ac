# SPDX-License-Identifier: BSD-2-Clause
"""Several networks on one GPU: orders that were worked out by hand, and what holds for all requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.extras.sharing.sharing import (
    POLICIES,
    Network,
    Request,
    load,
    periodic,
    poisson,
    simulate,
    simulate_together,
)

LONG = Network("long", (10.0, 10.0, 10.0), 100.0)
SHORT = Network("short", (2.0,), 6.0)
BOTH = LONG, SHORT


def order(policy: str, *requests: Request, networks: tuple[Network, ...] = BOTH) -> str:
    """The networks whose jobs ran, by their first letters."""
    return "".join(networks[number].name[0] for number in simulate(networks, requests, policy).order)


def test_orders() -> None:
    asked = Request(0, 0), Request(1, 1), Request(2, 0), Request(3, 1)
    assert order("fifo", *asked) == "lllslll" + "s"
    assert order("round-robin", *asked) == "lslslll" + "l"
    assert order("edf", *asked) == "lssllll" + "l"


def test_who_is_late() -> None:
    """The short one waits for a job of the long one: 10 + 2 - 1 microseconds. Cut in halves, it is in time."""
    asked = Request(0, 0), Request(1, 1)
    run = simulate(BOTH, asked, "edf")
    assert [one.response_us for one in run.networks] == [[32.0], [11.0]]
    assert [one.late for one in run.networks] == [0, 1]
    assert (run.late, run.requests, run.busy_us, run.end_us) == (0.5, 2, 32.0, 32.0)
    assert run.per_second == pytest.approx(2 / 32e-6)
    cut = Network("long", (5.0,) * 6, 100.0), SHORT
    assert [one.late for one in simulate(cut, asked, "edf").networks] == [0, 0]
    assert simulate(BOTH, asked, "fifo").networks[1].response_us == [31.0]


def test_those_that_cannot_be_in_time_come_last() -> None:
    """By EDF alone a request that is late keeps others from being in time."""
    networks = Network("long", (10.0, 10.0), 15.0), Network("short", (2.0,), 14.0)
    asked = Request(0, 0), Request(2, 1)
    assert order("edf", *asked, networks=networks) == "lls"
    assert simulate(networks, asked, "edf").networks[1].late == 1
    assert order("edf-last", *asked, networks=networks) == "lsl"
    assert [one.late for one in simulate(networks, asked, "edf-last").networks] == [1, 0]


def test_the_gpu_waits_for_requests() -> None:
    run = simulate(BOTH, [Request(100, 1), Request(200, 1)], "round-robin")
    assert (run.end_us, run.busy_us) == (202.0, 4.0)
    assert run.networks[0].quantile(0.5) == 0
    assert run.networks[1].quantile(0.99) == 2.0
    assert simulate(BOTH, [], "edf").late == 0


@given(
    jobs=st.lists(st.lists(st.floats(0.5, 50), min_size=1, max_size=5), min_size=1, max_size=4),
    asked=st.lists(st.tuples(st.floats(0, 500), st.integers(0, 3)), max_size=30),
    policy=st.sampled_from(list(POLICIES)),
    factor=st.floats(1, 10),
)
def test_all_are_served_and_no_time_is_lost(
    jobs: list[list[float]], asked: list[tuple[float, int]], policy: str, factor: float
) -> None:
    networks = [Network(str(number), tuple(one), factor * sum(one)) for number, one in enumerate(jobs)]
    requests = sorted(Request(at, number % len(networks)) for at, number in asked)
    run = simulate(networks, requests, policy)
    assert run.requests == len(requests)
    assert run.busy_us == pytest.approx(sum(networks[request.network].alone_us for request in requests))
    for number, (network, served) in enumerate(zip(networks, run.networks, strict=True)):
        mine = [request for request in requests if request.network == number]
        assert len(served.response_us) == len(mine)
        assert run.order.count(number) == len(mine) * len(network.jobs)
        assert all(us >= network.alone_us * (1 - 1e-9) - 1e-6 for us in served.response_us)
        assert served.late <= served.requests
    # whatever the order: a GPU that works whenever there is work ends when another does
    assert run.end_us == pytest.approx(simulate(networks, requests, "fifo").end_us)


@given(seed=st.integers(0, 2**32 - 1), rate=st.floats(1, 1000))
def test_random_requests(seed: int, rate: float) -> None:
    found = poisson([rate, rate / 2], 1e6, seed)
    assert found == poisson([rate, rate / 2], 1e6, seed)
    assert found == sorted(found)
    assert all(0 <= request.at_us < 1e6 for request in found)
    first = sum(request.network == 0 for request in found)
    assert abs(first - rate) < 8 * rate**0.5 + 8


def test_load_and_periods() -> None:
    assert [request.at_us for request in periodic(1, 400, 1000)] == [0, 400, 800]
    assert load(BOTH, [Request(0, 0), Request(1, 1)], 64) == 0.5
    with pytest.raises(ValueError, match="more than 1,000,000 requests"):
        poisson([1e9], 1e6, 0)
    with pytest.raises(ValueError, match="more than 1,000,000 requests"):
        periodic(0, 0.5, 1e6)


def test_both_at_once() -> None:
    """A replay of both takes the oldest request of each; what comes meanwhile waits for the next replay."""
    asked = Request(0, 0), Request(1, 1), Request(1, 1), Request(50, 0)
    run = simulate_together(BOTH, asked, 30.0)
    assert [one.response_us for one in run.networks] == [[30.0, 40.0], [59.0, 89.0]]
    assert [one.late for one in run.networks] == [0, 2]
    assert run.order == [0, 1, 0, 1]
    assert (run.busy_us, run.end_us) == (90.0, 90.0)
    assert simulate_together(BOTH, [], 30.0).requests == 0
    late = simulate_together(BOTH, [Request(100, 1)], 5.0)
    assert (late.end_us, late.busy_us, late.networks[1].late) == (105.0, 5.0, 0)
