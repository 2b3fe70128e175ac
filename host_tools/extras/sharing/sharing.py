# SPDX-License-Identifier: BSD-2-Clause
"""Several networks on one GPU: which requests are late, by the order in which jobs are run.

A GPU runs one job at a time, to its end; then the policy says whose job is next. Times of jobs are estimates
(host_tools/model/timing.py). What a CPU does between jobs, and what it takes to go from one network to another, is
not in them.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

SECOND_US = 1e6
MOST_REQUESTS = 1_000_000
POLICIES = {
    "fifo": "requests in the order in which they came, each to its end",
    "round-robin": "a job of each network that has requests, in turn (Linux gpu_scheduler, DRM_SCHED_POLICY_RR)",
    "edf": "a job of the request with the earliest deadline",
    "edf-last": "as edf; requests that cannot be in time any more come after all others",
}


@dataclass(frozen=True)
class Network:
    """A network that is asked for.

    Attributes:
        jobs: microseconds of each job of a replay, in their order.
        deadline_us: after a request, when it is to be done.
    """

    name: str
    jobs: tuple[float, ...]
    deadline_us: float

    @property
    def alone_us(self) -> float:
        """A replay, if nobody else uses the GPU."""
        return sum(self.jobs)


@dataclass(frozen=True, order=True)
class Request:
    """A request: when it comes, in microseconds, and the index of the network."""

    at_us: float
    network: int


@dataclass
class Served:
    """What became of one network's requests.

    Attributes:
        response_us: of each, in the order in which they ended: from the request to its end.
        late: how many ended after their deadline.
    """

    response_us: list[float] = field(default_factory=list)
    late: int = 0

    @property
    def requests(self) -> int:
        """How many have ended."""
        return len(self.response_us)

    def quantile(self, share: float) -> float:
        """The response time that so large a share of requests does not exceed; 0 without requests."""
        return float(np.quantile(self.response_us, share)) if self.response_us else 0.0


@dataclass(frozen=True)
class Run:
    """What became of all requests under a policy.

    Attributes:
        networks: as given.
        busy_us: what the GPU worked.
        end_us: when the last request ended.
        order: index of the network of each job, as jobs were run.
    """

    networks: tuple[Served, ...]
    busy_us: float
    end_us: float
    order: Sequence[int]

    @property
    def requests(self) -> int:
        """How many were served."""
        return sum(one.requests for one in self.networks)

    @property
    def late(self) -> float:
        """Share of requests that were late."""
        return sum(one.late for one in self.networks) / max(1, self.requests)

    @property
    def per_second(self) -> float:
        """Requests served a second."""
        return self.requests / self.end_us * SECOND_US if self.end_us else 0.0


def poisson(rates: Sequence[float], duration_us: float, seed: int) -> list[Request]:
    """Requests that come independently of each other, in their order.

    Args:
        rates: requests a second, of each network.
        seed: of the random numbers; the same seed gives the same requests.

    Raises:
        ValueError: more than MOST_REQUESTS are expected.
    """
    if sum(rates) * duration_us / SECOND_US > MOST_REQUESTS:
        raise ValueError(f"more than {MOST_REQUESTS:,} requests")
    generator = np.random.default_rng(seed)
    found = []
    for network, rate in enumerate(rates):
        number = generator.poisson(rate * duration_us / SECOND_US)
        found += [Request(at, network) for at in generator.uniform(0, duration_us, number).tolist()]
    return sorted(found)


def periodic(network: int, period_us: float, duration_us: float) -> list[Request]:
    """A request each period, the first at once.

    Raises:
        ValueError: these are more than MOST_REQUESTS.
    """
    if duration_us / period_us > MOST_REQUESTS:
        raise ValueError(f"more than {MOST_REQUESTS:,} requests")
    return [Request(number * period_us, network) for number in range(math.ceil(duration_us / period_us))]


def load(networks: Sequence[Network], requests: Sequence[Request], duration_us: float) -> float:
    """Time that requests ask for, of what there is."""
    return sum(networks[request.network].alone_us for request in requests) / duration_us


def simulate(networks: Sequence[Network], requests: Sequence[Request], policy: str) -> Run:
    """Run all requests to their end.

    Args:
        requests: in the order in which they come.
        policy: one of POLICIES.

    Returns:
        The same for the same arguments: requests of one time are taken in their order.
    """
    queue: _InTurn | _First = _InTurn(len(networks)) if policy == "round-robin" else _First(policy)
    served = tuple(Served() for _ in networks)
    now = busy = 0.0
    order: list[int] = []
    coming = iter(_open(networks, requests))
    following = next(coming, None)
    running: _Running | None = None
    while following or queue or running:
        if not queue and not running and following:
            now = max(now, following.at_us)
        while following and following.at_us <= now:
            queue.add(following)
            following = next(coming, None)
        if running:
            queue.put_back(running)  # behind what came while its job ran
        running = queue.take(now)
        network = networks[running.network]
        us = network.jobs[running.done]
        now, busy = now + us, busy + us
        order.append(running.network)
        running.done += 1
        running.left_us -= us
        if running.done == len(network.jobs):
            one = served[running.network]
            one.response_us.append(now - running.at_us)
            one.late += now > running.deadline_us
            running = None
    return Run(served, busy, now, order)


def simulate_together(networks: Sequence[Network], requests: Sequence[Request], replay_us: float) -> Run:
    """Run all requests to their end where each replay is one of all networks at once (`sharing join --share`).

    A replay takes the oldest request of each network that has one, as soon as there is any; another
    computes all the same, for nobody.

    Args:
        requests: in the order in which they come.
        replay_us: how long a replay of all takes.
    """
    served = tuple(Served() for _ in networks)
    waiting: list[deque[Request]] = [deque() for _ in networks]
    now = busy = 0.0
    order: list[int] = []
    coming = deque(requests)
    while coming or any(waiting):
        if not any(waiting):
            now = max(now, coming[0].at_us)
        while coming and coming[0].at_us <= now:
            request = coming.popleft()
            waiting[request.network].append(request)
        now, busy = now + replay_us, busy + replay_us
        for number, one in enumerate(waiting):
            if one:
                response = now - one.popleft().at_us
                served[number].response_us.append(response)
                served[number].late += response > networks[number].deadline_us
                order.append(number)
    return Run(served, busy, now, order)


@dataclass
class _Running:
    """A request: how many of its jobs have run, and how long the others take.

    Attributes:
        number: in the order in which they come.
        late: it cannot be in time any more, and has been found to be so.
    """

    number: int
    at_us: float
    deadline_us: float
    network: int
    left_us: float
    done: int = 0
    late: bool = False


def _open(networks: Sequence[Network], requests: Sequence[Request]) -> Iterator[_Running]:
    for number, request in enumerate(requests):
        network = networks[request.network]
        due = request.at_us + network.deadline_us
        yield _Running(number, request.at_us, due, request.network, network.alone_us)


class _First:
    """The request that came first, or the one with the earliest deadline; of equal ones, that which came first."""

    def __init__(self, policy: str) -> None:
        self.by_deadline = policy != "fifo"
        self.late_last = policy == "edf-last"
        self.heap: list[tuple[float, int, _Running]] = []
        self.late: deque[_Running] = deque()

    def __bool__(self) -> bool:
        return bool(self.heap or self.late)

    def add(self, request: _Running) -> None:
        """It has come."""
        key = request.deadline_us if self.by_deadline else request.at_us
        heapq.heappush(self.heap, (key, request.number, request))

    def put_back(self, request: _Running) -> None:
        """A job of it has ended, which was not its last."""
        if request.late:
            self.late.appendleft(request)
        else:
            self.add(request)

    def take(self, now: float) -> _Running:
        """Whose job is next."""
        while self.heap:
            request = heapq.heappop(self.heap)[2]
            request.late = self.late_last and now + request.left_us > request.deadline_us
            if not request.late:
                return request
            self.late.append(request)
        return self.late.popleft()


class _InTurn:
    """A job of each network that has requests; a network's own in the order in which they came."""

    def __init__(self, networks: int) -> None:
        self.waiting: list[deque[_Running]] = [deque() for _ in range(networks)]
        self.turns: deque[int] = deque()  # networks with requests, the next one first

    def __bool__(self) -> bool:
        return bool(self.turns)

    def add(self, request: _Running) -> None:
        """It has come."""
        self.waiting[request.network].append(request)
        self._queue(request.network)

    def put_back(self, request: _Running) -> None:
        """A job of it has ended, which was not its last."""
        self.waiting[request.network].appendleft(request)
        self._queue(request.network)

    def _queue(self, network: int) -> None:
        if network not in self.turns:
            self.turns.append(network)

    def take(self, now: float) -> _Running:
        """Whose job is next."""
        network = self.turns.popleft()
        request = self.waiting[network].popleft()
        if self.waiting[network]:
            self.turns.append(network)
        return request
