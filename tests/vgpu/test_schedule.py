# SPDX-License-Identifier: BSD-2-Clause
"""Requests with deadlines: who is served when, who is refused, and the same bits whatever ran in between."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from host_tools.extras.sharing import joining, sharing
from host_tools.model import parts
from tee_replayer.generator.hostlib import NO_DEADLINE
from tee_replayer.generator.status import ReplayError
from tests.support import replayer_samples as s
from tests.support.sampling import SomeOf
from tests.vgpu.test_joined import FOUR, PAIR, Running, expected, inputs, joint, running, single
from trace_format.actions import Action, Columns, Op, action
from trace_format.schema import SlotKind
from trace_format.trace import Trace

MS = 1000
QUEUE = 8


def small(jobs: int) -> Trace:
    """A network of so many jobs on a GPU that is only registers: what goes in comes out after the last one."""
    work: list[Action] = [action(Op.COPY_TO_GPU, slot=0)]
    for number in range(jobs):
        work += [
            s.write("core0.CSD_QUEUED_CFG1", 1),
            action(Op.JOB, number=number),
            action(Op.WAIT_IRQ, timeout_us=10_000_000),
        ]
    return s.trace(*s.PROLOGUE, *work, action(Op.COPY_FROM_GPU, slot=1), meta={"time_budget_us": 10_000_000})


class Scheduled:
    """A device with networks whose jobs take the time that is said, by a virtual clock."""

    def __init__(
        self, jobs: Sequence[Sequence[int]], predicted: Sequence[int] | None = None, *, exclusive: bool = False
    ) -> None:
        rows = [
            joining.Joining(f"n{number}", small(len(us)), sum(us) + 1 if predicted is None else predicted[number])
            for number, us in enumerate(jobs)
        ]
        self.trace = joining.joint(rows, "small", exclusive=exclusive).trace
        self.jobs = jobs
        self.gpu = s.Registers(interrupt=True)
        self.device = s.Device(self.gpu, 1 << 20, networks=8, schedule=QUEUE)
        self.replayer = self.device.replayer
        self.replayer.load(s.signed(self.trace), s.KEY)
        waits = np.zeros(len(self.trace.actions), int)
        waits[Columns(self.trace.actions).is_op(Op.WAIT_IRQ)] = [us for network in jobs for us in network]
        self.replayer.pace(1, waits.tolist())
        self.replayer.set_clock(0)
        self.data: dict[int, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = {}

    @property
    def now_us(self) -> float:
        return self.replayer.now_ns / 1000

    def submit(self, network: int, due_us: int, value: float = 0.0) -> int:
        """A request with memory of its own."""
        data, out = np.full((2, 3), value, "<f4"), np.zeros((2, 3), "<f4")
        number = self.replayer.submit(network, due_us, {2 * network: data, 2 * network + 1: out})
        self.data[number] = data, out
        return number

    def submitted(self, network: int, due_us: int, value: float) -> bool:
        """Whether a request is accepted; otherwise there was no room or no time for it."""
        try:
            self.submit(network, due_us, value)
        except ReplayError as error:
            if error.report.name not in ("DEADLINE", "QUEUE"):
                raise
            return False
        return True

    def refused(self, network: int, due_us: int) -> str:
        """Name of the status with which a request is refused."""
        before = self.replayer.requests
        with pytest.raises(ReplayError) as error:
            self.submit(network, due_us)
        assert self.replayer.requests == before
        return error.value.report.name

    def step(self) -> tuple[int, int]:
        """The network that had the step, and the request that is over; its output is its input."""
        number = self.replayer.schedule_step()
        at = self.replayer.report.action
        (network,) = (i for i, row in enumerate(self.trace.networks) if row.first_action <= at < row.end_action)
        if number:
            assert self.replayer.report.ok
            data, out = self.data.pop(number)
            assert np.array_equal(data, out)
        return network, number

    def drain(self) -> list[int]:
        """Serve all that wait; the network of each step."""
        order = []
        while self.replayer.requests:
            order.append(self.step()[0])
        return order

    def serve(self, requests: Sequence[sharing.Request], within_us: Sequence[int]) -> tuple[list[int], list[int]]:
        """Requests as they come: the network of each step, and the numbers of the requests that were accepted."""
        order, accepted = [], []
        coming = list(enumerate(requests))
        while coming or self.replayer.requests:
            if not self.replayer.requests:
                self.replayer.set_clock(max(self.replayer.now_ns, int(coming[0][1].at_us * 1000)))
            while coming and coming[0][1].at_us <= self.now_us:
                number, request = coming.pop(0)
                due = int(request.at_us) + within_us[request.network]
                if self.submitted(request.network, due, float(number + 1)):
                    accepted.append(number)
            if self.replayer.requests:
                order.append(self.step()[0])
        return order, accepted


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_the_order_of_jobs_is_that_of_the_simulation(data: st.DataObject) -> None:
    """The same requests, jobs of the same times: policy edf of `sharing simulate`, for those accepted."""
    us = st.integers(1, 9).map(lambda number: number * MS)
    jobs = data.draw(st.lists(st.lists(us, min_size=1, max_size=5), min_size=2, max_size=4))
    within = [sum(one) * data.draw(st.integers(2, 9)) + MS for one in jobs]
    # Half a millisecond off all ends of jobs: what accesses take by this clock, microseconds, decides nothing.
    at = st.tuples(st.integers(0, 150), st.integers(0, len(jobs) - 1))
    requests = sorted(
        sharing.Request(when * MS + 500.0, n) for when, n in data.draw(st.lists(at, min_size=1, max_size=30))
    )
    device = Scheduled(jobs)
    order, accepted = device.serve(requests, within)
    networks = [sharing.Network(f"n{i}", tuple(map(float, us)), within[i]) for i, us in enumerate(jobs)]
    simulated = sharing.simulate(networks, [requests[number] for number in accepted], "edf")
    assert order == list(simulated.order)
    assert simulated.late == 0, "a request that was accepted was late"
    assert device.gpu.resets == 1


def test_ten_thousand_requests(some_of: SomeOf) -> None:
    """Four networks, Poisson arrivals at half load: all that are accepted are in time, and nothing grows."""
    jobs = [[1 * MS], [2 * MS] * 3, [1 * MS] * 2, [3 * MS] * 4]
    within = [4 * sum(us) + 3 * MS for us in jobs]
    rates = [0.125 / sum(us) * 1e6 for us in jobs]
    requests = [
        sharing.Request(int(request.at_us / MS) * MS + 500.0, request.network)
        for request in sharing.poisson(rates, 10_000 / sum(rates) * 1e6, 1)
    ]
    requests = requests[: len(some_of(range(len(requests)), 1000))]
    device = Scheduled(jobs)
    order, accepted = device.serve(requests, within)
    networks = [sharing.Network(f"n{i}", tuple(map(float, us)), within[i]) for i, us in enumerate(jobs)]
    simulated = sharing.simulate(networks, [requests[number] for number in accepted], "edf")
    assert order == list(simulated.order)
    assert simulated.late == 0
    assert len(accepted) >= 0.97 * len(requests)
    assert device.gpu.resets == 1
    device.replayer.unload()
    assert device.device.is_wiped


def test_what_cannot_fit_is_refused() -> None:
    device = Scheduled([[10 * MS, 10 * MS], [5 * MS]])
    assert device.refused(0, 20 * MS) == "DEADLINE"  # it takes a microsecond more
    device.submit(0, 22 * MS)
    assert device.refused(1, 25 * MS) == "DEADLINE"  # with what is due before
    assert device.refused(1, 21 * MS) == "DEADLINE"  # the one that was accepted would be late
    device.submit(1, 27 * MS)
    assert device.drain() == [0, 0, 1]
    assert device.now_us < 27 * MS


def test_one_that_begins_sooner_goes_first_if_all_fit() -> None:
    device = Scheduled([[10 * MS, 10 * MS], [5 * MS]])
    device.submit(0, 40 * MS)
    assert device.step()[0] == 0
    device.submit(1, 17 * MS)
    assert device.drain() == [1, 0]


def test_the_past() -> None:
    device = Scheduled([[MS], [MS]])
    device.replayer.set_clock(50 * MS * 1000)
    for due in (0, 1, 49 * MS, 50 * MS):
        assert device.refused(0, due) == "DEADLINE"
    assert device.submit(0, 52 * MS)


def test_there_is_no_such_network_and_no_such_slot() -> None:
    device = Scheduled([[MS], [MS]])
    for network in (2, 8, (1 << 32) - 1):
        with pytest.raises(ReplayError) as error:
            device.replayer.submit(network, NO_DEADLINE)
        assert error.value.report.name == "ARGUMENT"
    data = np.zeros((2, 3), "<f4")
    for slot, value in ((0, data), (3, data[:1]), (4, data), (255, data), (3, np.zeros(7, "<f4"))):
        with pytest.raises(ReplayError) as error:  # of the other network, too short, none, none, too long
            device.replayer.submit(1, NO_DEADLINE, {slot: value})
        assert error.value.report.name == "ARGUMENT"
    assert device.replayer.requests == 0


def test_parameters_of_requests() -> None:
    """Each has the prologue with its own, and none is left for the next."""
    slots = s.slots(bound=False)
    trace = s.trace(slots=[dataclasses.replace(slots[0], kind=SlotKind.PARAMETER), slots[1]])
    prologue = [*s.PROLOGUE[:-1], action(Op.COPY_TO_GPU, slot=0), s.PROLOGUE[-1]]
    trace = trace.with_(actions=np.array([*prologue, *s.REPLAY[1:]], dtype=trace.actions.dtype))
    device = s.Device(carveout_bytes=1 << 20, networks=2, schedule=QUEUE)
    device.replayer.load(s.signed(trace), s.KEY)
    for value in (1.0, 2.0):
        data, out = np.full((2, 3), value, "<f4"), np.zeros((2, 3), "<f4")
        number = device.replayer.submit(0, NO_DEADLINE, {0: data, 1: out})
        assert device.replayer.schedule_step() == number
        assert device.replayer.report.ok
        assert np.array_equal(data, out)
    assert device.replayer.submit(0, NO_DEADLINE, {1: out}) == device.replayer.schedule_step()
    assert device.replayer.report.name == "UNBOUND"


def test_the_queue_is_full() -> None:
    device = Scheduled([[MS, MS], [MS]])
    numbers = [device.submit(number % 2, NO_DEADLINE) for number in range(QUEUE)]
    assert len(set(numbers)) == QUEUE
    assert device.refused(0, NO_DEADLINE) == "QUEUE"
    device.replayer.withdraw(numbers[3])
    assert device.submit(0, NO_DEADLINE)
    assert device.refused(1, NO_DEADLINE) == "QUEUE"
    device.drain()
    assert device.replayer.schedule_step() == 0


def test_nothing_is_loaded() -> None:
    device = Scheduled([[MS], [MS]])
    device.submit(0, NO_DEADLINE)
    device.replayer.unload()
    assert (device.replayer.requests, device.replayer.schedule_step()) == (0, 0)
    assert device.refused(0, NO_DEADLINE) == "STATE"


def test_a_clock_that_goes_back_gives_nobody_more_time() -> None:
    device = Scheduled([[10 * MS, 10 * MS], [5 * MS]])
    device.replayer.set_clock(100 * MS * 1000)
    device.submit(0, 124 * MS)
    device.replayer.set_clock(0)
    assert device.refused(1, 90 * MS) == "DEADLINE"  # which is over
    assert device.refused(1, 110 * MS) == "DEADLINE"  # the first would be late
    device.submit(1, 126 * MS)
    assert device.drain() == [0, 0, 1]


def test_a_clock_that_goes_back_during_a_step_is_charged_to_who_ran() -> None:
    """It has used up its whole time budget, and fails; others do not."""
    device = Scheduled([[10 * MS] * 3, [5 * MS]])
    device.replayer.set_clock(500 * MS * 1000)
    device.submit(0, 600 * MS)
    device.step()
    device.gpu.on_write = lambda name, value: device.replayer.set_clock(0)
    assert device.replayer.schedule_step() == 0
    device.gpu.on_write = lambda name, value: None
    assert device.replayer.schedule_step()
    assert device.replayer.report.name == "BUDGET"
    device.submit(1, NO_DEADLINE, 3.0)
    device.submit(0, NO_DEADLINE, 4.0)
    assert device.drain() == [1, 0, 0, 0]


def test_requests_of_one_network_do_not_overtake_one_that_has_begun() -> None:
    """They have one working memory; before that they go by their deadlines."""
    device = Scheduled([[10 * MS, 10 * MS], [5 * MS]])
    first = device.submit(0, 200 * MS, 1.0)
    device.step()
    second, third = device.submit(0, 90 * MS, 2.0), device.submit(0, 60 * MS, 3.0)
    other = device.submit(1, 30 * MS, 4.0)
    over = []
    while device.replayer.requests:
        over.append(device.step()[1])
    assert [number for number in over if number] == [other, first, third, second]


def test_without_a_deadline_a_request_waits_for_all_that_have_one() -> None:
    device = Scheduled([[MS, MS], [5 * MS]])
    device.submit(1, NO_DEADLINE)
    device.submit(0, 100 * MS)
    device.submit(0, 1000 * MS)
    assert device.drain() == [0, 0, 0, 0, 1]


def test_who_takes_longer_than_predicted_lets_others_go_first() -> None:
    """It is due later each time, so it does not wait for ever."""
    device = Scheduled([[10 * MS] * 6, [5 * MS]], [20 * MS, 5 * MS + 1])
    device.submit(0, 25 * MS)
    device.submit(1, 31 * MS)
    assert device.drain() == [0, 0, 1, 0, 0, 0, 0]


def test_it_does_not_wait_for_ever() -> None:
    """A stream of requests that fills the GPU: what has overrun its time is done nevertheless."""
    device = Scheduled([[10 * MS] * 6, [5 * MS]], [20 * MS, 5 * MS + 1])
    long = device.submit(0, 25 * MS)
    for number in range(60):
        device.submitted(1, int(device.now_us) + 12 * MS, number)
        if device.step()[1] == long:
            break
    else:
        pytest.fail("it starves")


def test_unknown_times_are_time_budgets() -> None:
    device = Scheduled([[MS], [MS]], [0, 0])
    assert device.refused(0, 9_000_000) == "DEADLINE"
    device.submit(0, 10_001_000)
    assert device.refused(1, 19_000_000) == "DEADLINE"
    device.submit(1, 20_001_000)
    assert device.drain() == [0, 1]


def test_networks_with_one_memory_are_not_interleaved() -> None:
    device = Scheduled([[10 * MS, 10 * MS], [5 * MS]], exclusive=True)
    device.submit(0, 90 * MS, 1.0)
    device.step()
    assert device.refused(1, 24 * MS) == "DEADLINE"  # the first has 10 ms left, and keeps the GPU
    device.submit(1, 26 * MS, 2.0)
    assert device.drain() == [0, 1]


def test_a_request_is_taken_back() -> None:
    device = Scheduled([[MS, MS], [MS]])
    first, second = device.submit(0, NO_DEADLINE), device.submit(0, NO_DEADLINE, 2.0)
    device.step()
    device.replayer.withdraw(first)
    with pytest.raises(KeyError):
        device.replayer.withdraw(first)
    with pytest.raises(KeyError):
        device.replayer.withdraw(0)
    device.data[first][1][...] = 5.0  # nothing writes there any more
    assert device.step() == (0, 0)
    assert device.step() == (0, second)
    assert np.all(device.data[first][1] == 5.0)


def test_what_is_bound_stays_bound_until_a_replay_is_over() -> None:
    device = Scheduled([[MS, MS], [MS]])
    data, out = np.zeros((2, 3), "<f4"), np.zeros((2, 3), "<f4")
    device.submit(0, NO_DEADLINE)
    device.replayer.bind(0, data)  # it waits, and has data of its own
    device.step()
    for slot in (0, 1):
        with pytest.raises(ReplayError) as error:
            device.replayer.bind(slot, data)
        assert error.value.report.name == "STATE"
    device.replayer.bind(3, out)  # of the other network
    device.drain()
    device.replayer.bind(0, data)


def test_what_is_not_bound_is_refused_when_its_turn_comes() -> None:
    rows = [joining.Joining(name, s.trace(slots=s.slots(bound=False)), 10) for name in "ab"]
    device = s.Device(carveout_bytes=1 << 20, networks=2, schedule=QUEUE)
    device.replayer.load(s.signed(joining.joint(rows, "x").trace), s.KEY)
    number = device.replayer.submit(1, NO_DEADLINE)
    assert device.replayer.schedule_step() == number
    assert (device.replayer.report.name, device.replayer.report.offset) == ("UNBOUND", 2)
    assert device.replayer.requests == 0


# On the virtual GPU.


def give(device: Running, network: int, names: Sequence[str], seed: int) -> dict[int, Any]:
    """New memory for a request: inputs with values, outputs."""
    row = device.trace.networks[network]
    values = inputs(single(names[network]), seed)
    found: dict[int, Any] = {}
    for index in range(row.first_slot, row.first_slot + row.slot_count):
        slot = device.trace.slots[index]
        if slot.kind is SlotKind.INPUT:
            found[index] = values[slot.name.partition(parts.SEPARATOR)[2]].copy()
        elif slot.kind is SlotKind.OUTPUT:
            found[index] = np.zeros(slot.shape, slot.numpy_dtype)
    return found


def steps_of(name: str) -> int:
    """Of a replay."""
    return int(Columns(single(name).actions).is_op(Op.JOB).sum())


def results(device: Running, data: dict[int, Any]) -> dict[str, bytes]:
    """Outputs, by their names in the single trace."""
    slots = device.trace.slots
    return {
        slots[index].name.partition(parts.SEPARATOR)[2]: value.tobytes()
        for index, value in data.items()
        if slots[index].kind is SlotKind.OUTPUT
    }


def interleaved(device: Running, names: Sequence[str], count: int, seed: int) -> list[int]:
    """Random requests, a few at a time; all outputs are those of single traces. The retries of each network."""
    random = np.random.default_rng(seed)
    waiting: dict[int, tuple[int, int, dict[int, Any]]] = {}
    retries = [0] * len(names)
    left = count
    while left or device.replayer.requests:
        while left and device.replayer.requests < QUEUE and random.random() < 0.4:
            network, number = int(random.integers(len(names))), int(random.integers(3))
            data = give(device, network, names, number)
            # Times are not predicted here: the deadline only says the order.
            due = NO_DEADLINE - int(random.integers(1000))
            waiting[device.replayer.submit(network, due, data)] = network, number, data
            left -= 1
        over = device.replayer.schedule_step()
        if over:
            network, number, data = waiting.pop(over)
            assert device.replayer.report.ok
            retries[network] += device.replayer.report.retries
            assert results(device, data) == expected(names[network], number)
    assert not waiting
    return retries


@pytest.mark.sampled(1)
@pytest.mark.parametrize("names", [PAIR, FOUR], ids=len)
def test_interleaved_requests_give_what_single_traces_give(names: Sequence[str], some_of: SomeOf) -> None:
    count = len(some_of(range(10_000), 20))
    with running(joint(names).trace, schedule=QUEUE) as device:
        assert not any(interleaved(device, names, count, 5))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("names", [PAIR, ("detector", "lenet")], ids="-".join)
def test_preempted_at_each_job(names: Sequence[str]) -> None:
    """By a request that is due before, whose whole replay comes in between."""
    jobs = steps_of(names[0])
    with running(joint(names).trace, schedule=QUEUE) as device:
        for at in range(1, jobs):
            slow, fast = give(device, 0, names, at % 3), give(device, 1, names, (at + 1) % 3)
            first = device.replayer.submit(0, NO_DEADLINE, slow)
            for _ in range(at):
                assert not device.replayer.schedule_step()
            second = device.replayer.submit(1, NO_DEADLINE - 1, fast)
            over = [device.replayer.schedule_step() for _ in range(steps_of(names[1]) + jobs - at)]
            assert [number for number in over if number] == [second, first]
            assert results(device, slow) == expected(names[0], at % 3)
            assert results(device, fast) == expected(names[1], (at + 1) % 3)


def test_a_fault_of_one_leaves_the_others_outputs() -> None:
    for job in (3, 9, 20):
        with running(joint(PAIR).trace, schedule=QUEUE, fault_job=job) as device:
            assert sum(interleaved(device, PAIR, 6, job)) == 1


def test_a_mali_ends_what_it_has_begun() -> None:
    """There each change of networks is a reset and a prologue, so a job in between would undo what was done."""
    names = ("lenet-mali", "lenet-mali-2")
    with running(joint(names).trace, schedule=QUEUE) as device:
        assert not any(interleaved(device, names, 4, 2))
