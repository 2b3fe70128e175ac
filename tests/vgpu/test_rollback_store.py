# SPDX-License-Identifier: BSD-2-Clause
"""The rollback store over a flash whose power is cut in the middle of each write and erase.

A version that was reported as kept, or that counted in an earlier boot, is never followed by a lower one.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cffi
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from host_tools.runners import libraries
from tee_replayer import crypto
from tee_replayer.generator import amalgamate, rollback_store
from tee_replayer.generator.status import CORE
from tee_replayer.generator.strictness import WARNINGS
from tests.support import store_images as images
from tests.support.sampling import SomeOf, few
from tests.support.store_images import BANK, BANK_BYTES, PAIRS, POLICY, RECORD, TRACE, bank, pair, record
from trace_format.emit import GENERATED
from trace_format.schema.report import Status
from trace_format.schema.store import STORE_NAMES

HERE = Path(__file__).parent
CUT_OFF = 2
LOADED = 0xE3E3E3E3  # GR_STATE_LOADED
REPLAY = 3  # GR_PHASE_REPLAY
DRAWS = 20  # ways in which one operation is cut off
DECLARATIONS = f"""
    struct flash {{
        uint8_t bytes[2][{BANK_BYTES}];
        uint8_t weak[2][{BANK_BYTES}];
        uint8_t worn[2][128];
        uint32_t steps, cut_at, random, written_twice, erase_fails, read_fails;
    }};
    extern struct flash flash;
    void model_boot(void);
    uint32_t model_open(void);
    uint32_t model_keep(const uint8_t name[64], uint32_t version, uint32_t policy);
    uint32_t model_keep_unless(uint32_t state, uint32_t status, uint32_t phase);
    uint32_t gr_store_least_policy(void);
    uint32_t gr_store_check(const uint8_t name[64], uint32_t version);
"""
ffi = cffi.FFI()
ffi.cdef(DECLARATIONS)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("store")
    found = libraries.source()
    includes = [f"-I{path}" for path in (CORE, rollback_store.HERE, GENERATED)]
    includes += [f"-isystem{found.bearssl / path}" for path in ("inc", "src")]
    flags = ["-std=c11", "-O2", "-fPIC", f"-D{amalgamate.HAS_STORE}", f"-D{amalgamate.HAS_TRUST}", *includes]
    flags += ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    own = [rollback_store.HERE / "store.c", HERE / "flash_model.c", CORE / "stream.c", CORE / "memory.c"]
    own.append(CORE.parent / "crypto" / "bearssl_hash.c")
    compiler = os.environ.get("CC", "cc")
    for source in (*own, *(found.bearssl / name for name in crypto.HASH)):
        warnings = WARNINGS if source in own else []
        output = ["-c", "-o", str(folder / f"{source.stem}.o"), str(source)]
        done = subprocess.run([compiler, *flags, *warnings, *output], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    path = folder / "store.so"
    subprocess.run([compiler, "-shared", "-o", str(path), *map(str, folder.glob("*.o"))], check=True)
    return ffi.dlopen(str(path))


class Store:
    """The store, and its flash."""

    def __init__(self, library: Any) -> None:
        self.lib, self.flash = library, library.flash
        ffi.memmove(ffi.addressof(self.flash), bytes(ffi.sizeof("struct flash")), ffi.sizeof("struct flash"))
        self.flash.random = 1
        self.contents = bank(), bank()

    @property
    def contents(self) -> tuple[bytes, bytes]:
        return bytes(ffi.buffer(self.flash.bytes[0])), bytes(ffi.buffer(self.flash.bytes[1]))

    @contents.setter
    def contents(self, banks: tuple[bytes, bytes]) -> None:
        for number, data in enumerate(banks):
            assert len(data) == BANK_BYTES
            ffi.memmove(self.flash.bytes[number], data, BANK_BYTES)

    def saved(self) -> bytes:
        return bytes(ffi.buffer(ffi.addressof(self.flash)))

    def put_back(self, saved: bytes) -> None:
        ffi.memmove(ffi.addressof(self.flash), saved, len(saved))

    def cut(self, step: int, random: int) -> None:
        """Cut the power at a step from now."""
        self.flash.cut_at = self.flash.steps + step if step else 0
        self.flash.random = random

    def boot(self) -> int:
        self.lib.model_boot()
        return int(self.lib.model_open())

    def keep(self, name: str, version: int, policy: int) -> int:
        return int(self.lib.model_keep(padded(name), version, policy))

    def check(self, name: str, version: int) -> int:
        return int(self.lib.gr_store_check(padded(name), version))

    @property
    def policy(self) -> int:
        return int(self.lib.gr_store_least_policy())

    def least(self, name: str, most: int = 1 << 8) -> int:
        """By its answers: the lowest version that is not refused."""
        low, high = 0, most
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.check(name, middle) == Status.ROLLBACK else (low, middle)
        return low

    def has(self, name: str, least: int) -> bool:
        """Whether this version may be used, and no lower one."""
        if least and self.check(name, least - 1) != Status.ROLLBACK:
            return False
        return self.check(name, least) == Status.OK


def padded(name: str) -> bytes:
    return name.encode().ljust(64, b"\0")


@pytest.fixture
def store(library: Any) -> Iterator[Store]:
    found = Store(library)
    yield found
    assert not found.flash.written_twice


def test_what_is_kept_is_there_after_a_reboot_as_another_program_reads_it(store: Store) -> None:
    assert store.boot()
    assert store.policy == 0
    assert store.check("net", 0) == Status.OK
    for name, version, policy in (("net", 3, 1), ("other", 7, 2), ("net", 4, 2), ("net", 0, 0)):
        assert store.keep(name, version, policy) == Status.OK
    assert store.boot()
    assert store.policy == 2
    assert store.check("net", 3) == Status.ROLLBACK
    assert store.check("net", 4) == Status.OK
    assert store.check("other", 6) == Status.ROLLBACK
    assert store.check("unknown", 0) == Status.OK
    expected = {(BANK, ""): 1, (TRACE, "net"): 4, (TRACE, "other"): 7, (POLICY, ""): 2}
    assert images.versions(store.contents[0]) == expected
    assert store.contents[1] == bank()


def test_what_another_program_wrote_is_read(store: Store) -> None:
    store.contents = (bank(pair(TRACE, 5, "net"), pair(POLICY, 3), pair(BANK, 8)), bank(pair(BANK, 7)))
    before = store.contents[0]
    assert store.boot()
    assert (store.policy, store.least("net")) == (3, 5)
    assert store.contents == (before, bank())  # the earlier bank is gone


def test_nothing_is_kept_unless_a_replay_went_well(store: Store) -> None:
    good = LOADED, int(Status.OK), REPLAY
    for index, wrong in ((0, 0), (0, 1), (1, int(Status.DIVERGED)), (2, 1), (2, 2)):
        values = list(good)
        values[index] = wrong
        assert store.lib.model_keep_unless(*values) == Status.STATE
    assert store.contents == (bank(), bank())


def test_no_room_for_another_name(store: Store) -> None:
    for number in range(STORE_NAMES - 1):  # the policy has a version, too
        assert store.keep(f"net-{number}", 1, 1) == Status.OK
    assert store.check("one-more", 1) == Status.STORE == store.keep("one-more", 1, 1)
    assert store.check("one-more", 0) == Status.OK  # has no version to keep
    for version in range(2, 60):  # through several banks
        assert store.keep("net-0", version, version) == Status.OK
    assert store.boot()
    assert store.policy == 59
    assert store.least("net-0") == 59
    assert all(store.least(f"net-{number}") == 1 for number in range(1, STORE_NAMES - 1))


GOOD = pair(BANK, 1), pair(TRACE, 5, "net"), pair(POLICY, 3)
TORN = b"\x00" * 40 + b"\xff" * (2 * RECORD - 40)
ONCE = record(TRACE, 5, "net").ljust(2 * RECORD, b"\xff")
LOST = {
    "a record lost both copies": (bank(*GOOD[:1], b"\x5a" * 2 * RECORD, *GOOD[2:]), bank()),
    "the bank's record lost both copies": (bank(b"\x5a" * 2 * RECORD, *GOOD[1:]), bank()),
    "the copies differ": (bank(*GOOD[:1], record(TRACE, 5, "net") + record(TRACE, 4, "net")), bank()),
    "a first copy is blank": (bank(*GOOD, b"\xff" * RECORD + record(TRACE, 6, "net")), bank()),
    "a first copy is blank, a second one bad": (bank(*GOOD, b"\xff" * RECORD + b"\x00" * RECORD), bank()),
    "zeros": (bytes(BANK_BYTES), bytes(BANK_BYTES)),
    "zeros in the other bank only": (bank(), bytes(BANK_BYTES)),
    "no bank's record": (bank(*GOOD[1:]), bank()),
    "two banks of one generation": (bank(*GOOD), bank(*GOOD)),
    "a kind that is not there": (bank(*GOOD, pair(4, 5)), bank()),
    "a version of zero": (bank(*GOOD, pair(TRACE, 0, "net")), bank()),
}
KEPT = {
    "whole": (bank(*GOOD), bank()),
    "a first copy is lost": (bank(*GOOD[:1], b"\x5a" * RECORD + record(TRACE, 5, "net"), *GOOD[2:]), bank()),
    "a second copy is lost": (bank(*GOOD[:1], record(TRACE, 5, "net") + b"\x5a" * RECORD, *GOOD[2:]), bank()),
    "a record that was cut off": (bank(*GOOD, TORN), bank()),
    "a second copy that was cut off": (bank(*GOOD[:1], *GOOD[2:], ONCE), bank()),
    "the other bank's erase was cut off": (bank(*GOOD), bytes(BANK_BYTES)),
    "the other bank is older": (bank(pair(TRACE, 4, "net"), pair(BANK, 1)), bank(*GOOD[1:], pair(BANK, 2))),
    "a copy of bank was cut off": (bank(*GOOD), bank(pair(TRACE, 9, "net"), pair(TRACE, 8, "x"), TORN)),
}


@pytest.mark.parametrize("name", LOST)
def test_a_store_that_has_lost_something_is_refused(name: str, store: Store) -> None:
    store.contents = LOST[name]
    assert store.boot() == 0
    assert store.policy == 2**32 - 1
    assert store.check("net", 2**32 - 1) == Status.STORE
    assert store.keep("net", 9, 9) == Status.STORE
    assert store.contents == LOST[name]  # evidence: nothing is overwritten


@pytest.mark.parametrize("name", KEPT)
def test_a_store_that_lacks_nothing_counts(name: str, store: Store) -> None:
    store.contents = KEPT[name]
    for _ in range(2):
        assert store.boot() == 1
        assert (store.policy, store.least("net")) == (3, 5)
    assert store.keep("net", 6, 4) == Status.OK
    assert store.boot()
    assert (store.policy, store.least("net")) == (4, 6)


def test_each_record_lost_of_a_full_store(store: Store) -> None:
    """Any record may be lost; with both of a pair nothing is known."""
    fill(store, 20)
    whole = store.contents
    for number in range(2 * 21):
        at = number * RECORD
        data = whole[0][:at] + bytes(RECORD) + whole[0][at + RECORD :]
        store.contents = data, whole[1]
        assert store.boot() == 1
        assert (store.policy, store.least("net-1")) == (10, 10)
        store.contents = whole
        store.flash.read_fails = number + 1  # flash that knows of its damage says so
        assert store.boot() == 1
        assert (store.policy, store.least("net-1")) == (10, 10)
        store.flash.read_fails = 0


def fill(store: Store, count: int) -> None:
    for number in range(count // 2):
        assert store.keep(f"net-{number % 3}", number + 1, number + 1) == Status.OK
    assert store.keep("net-1", count // 2, count // 2) == Status.OK


def test_worn_flash(store: Store) -> None:
    """Records that take nothing are passed over; a bank that cannot be erased ends it."""
    for number in range(0, 128, 3):
        store.flash.worn[0][number] = 1
    for version in range(1, 40):
        assert store.keep("net", version, version) == Status.OK
        assert store.boot()
        assert store.least("net") == version == store.policy
    store.flash.erase_fails = 1
    results = [store.keep("net", version, 40) for version in range(40, 110)]
    assert results[0] == Status.OK
    assert results[-1] == Status.STORE
    assert store.boot() in (0, 1)
    assert store.policy >= 40


def test_a_bank_that_reads_blank_after_an_erase_was_cut_off(store: Store) -> None:
    """It is erased once more before anything is written to it: its bits may read otherwise later."""
    pairs = (pair(TRACE, number, "net") for number in range(1, PAIRS))
    store.contents = bank(pair(BANK, 1), *pairs), bank()
    for at in range(BANK_BYTES):
        store.flash.weak[1][at] = 1 << at % 8
    assert store.keep("net", 99, 1) == Status.OK
    for _ in range(3):
        assert store.boot() == 1
        assert store.has("net", 99)


def replays() -> Iterator[tuple[str, int, int]]:
    """(name, version, policy): enough to change banks several times."""
    for number in range(1, 200):
        yield f"net-{number % 4}", number, 1 + number // 5


def test_each_write_and_erase_is_cut_off(store: Store, some_of: SomeOf) -> None:
    """In DRAWS ways, and what follows is cut off once more. Then the version is the old or the new one.

    Of the replays that only append, one of sixteen: those between begin at another record, and are alike.
    """
    kept = {f"net-{number}": 0 for number in range(4)}
    policy = cuts = changes = 0
    draws = some_of(range(1, DRAWS + 1), 3)
    for name, version, newer in replays():
        before = store.saved()
        steps = store.flash.steps
        assert store.keep(name, version, newer) == Status.OK
        count = store.flash.steps - steps
        after = store.saved()
        changes += count > 4
        for step in range(1, count + 1) if count > 4 or version % 16 == 1 else ():
            for random in draws:
                store.put_back(before)
                store.cut(step, (random + 97 * step + 1013 * version) * 0x9E3779B9 & 0xFFFFFFFF)
                assert store.keep(name, version, newer) == CUT_OFF
                cuts += 1
                if random % 2:  # at the next boot, too
                    store.cut(1 + random % 3, random)
                    store.boot()
                store.cut(0, random * 0x85EBCA6B & 0xFFFFFFFF)
                assert store.boot() == 1
                assert store.policy in {policy, newer}
                assert all(store.has(other, least) for other, least in kept.items() if other != name)
                is_new = store.has(name, version)
                assert is_new or store.has(name, kept[name])
                assert store.boot() == 1  # what has counted stays, however weak bits read now
                assert store.has(name, version) or not is_new
                assert store.keep(name, version, newer) == Status.OK
                assert store.boot()
                assert store.policy == newer
                assert store.has(name, version)
        store.put_back(after)
        kept[name], policy = version, newer
    assert cuts > 75 * len(draws)
    assert changes > 3


STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),  # name
        st.integers(0, 40),  # version
        st.integers(0, 40),  # policy
        st.integers(0, 6),  # step that is cut off; 0: none
        st.integers(1, 2**32 - 1),  # draw
        st.integers(0, 3),  # step of the next boot that is cut off; 0: none
    ),
    max_size=40,
)


@few(40, 100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_random_replays_and_cuts(library: Any, steps: list[tuple[int, int, int, int, int, int]]) -> None:
    store = Store(library)
    names = [f"net-{number}" for number in range(4)]
    least = dict.fromkeys([*names, "policy"], 0)  # reported as kept, or counted in an earlier boot

    def value(name: str) -> int:
        return store.policy if name == "policy" else store.least(name)

    highest = dict(least)  # that anybody tried to keep
    for number, version, policy, cut, random, again in steps:
        name = names[number]
        store.cut(cut, random)
        status = store.keep(name, version, policy)
        for which, tried in ((name, version), ("policy", policy)):
            highest[which] = max(highest[which], tried)
            if status == Status.OK:
                least[which] = max(least[which], tried)
        if status == CUT_OFF or again:
            if again:
                store.cut(again, random ^ 1 or 1)
                store.boot()
            store.cut(0, random)
            assert store.boot() == 1
        else:
            assert status == Status.OK
        for which in least:
            assert least[which] <= value(which) <= highest[which]
            least[which] = value(which)
    assert not store.flash.written_twice


def test_a_flash_that_is_cut_off_from_the_first_write_on(store: Store) -> None:
    """Where nothing was ever kept, what is cut off again and again is no damage."""
    for random in range(1, 60):
        store.cut(1 + random % 2, random)
        assert store.keep("net", 1, 1) in (CUT_OFF, Status.OK)
        store.cut(0, random)
        assert store.boot() == 1
    assert store.keep("net", 1, 1) == Status.OK
    assert store.boot()
    assert store.least("net") == 1
