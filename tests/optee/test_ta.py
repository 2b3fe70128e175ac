# SPDX-License-Identifier: BSD-2-Clause
"""The TA: who may open a session, what it passes on to the pseudo-TA, and that versions only grow."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from host_tools.runners.optee import ta
from host_tools.runners.optee.normal_world import tee_result
from host_tools.runners.replay import RunnerError
from tee_replayer.generator.status import statuses
from tests.optee.compiled_ta import (
    ACCESS_DENIED,
    ATTEST,
    BAD_PARAMETERS,
    BUSY,
    CORRUPT,
    COUNTER,
    DESCRIBE,
    DESCRIBE_TRACE,
    DEVICE_KEY,
    GET_ENTRIES,
    GET_LOG,
    GET_OUTPUT,
    GROUP,
    IN,
    LINUX,
    LOAD,
    LOAD_BEGIN,
    LOAD_DATA,
    LOG,
    LOG_OPEN,
    LOG_TAIL,
    NO_SPACE,
    NOBODY,
    NONE,
    NOT_SUPPORTED,
    OLDER,
    PIECE,
    PUBLIC,
    RUN,
    SET_INPUT,
    SHORT_BUFFER,
    SOURCES,
    SUCCESS,
    TRACE,
    TRUSTED_APP,
    UNLOAD,
    USER,
    VALUE,
    Ta,
    compiled,
    manifest,
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return compiled(tmp_path_factory.mktemp("ta"), (SOURCES / "policy.h").read_text())


@pytest.fixture
def device(library: Path) -> Ta:
    found = Ta(library)
    assert found.open() == SUCCESS
    return found


@pytest.mark.parametrize(
    ("login", "who", "allowed"),
    [
        (USER, uuid.uuid5(LINUX, "uid=0"), True),
        (USER, uuid.uuid5(LINUX, "uid=3e8"), False),
        (USER, NOBODY, False),
        (GROUP, uuid.uuid5(LINUX, "uid=0"), False),
        (PUBLIC, NOBODY, False),
        (PUBLIC, uuid.uuid5(LINUX, "uid=0"), False),
        (TRUSTED_APP, uuid.UUID(int=77), True),
    ],
)
def test_who_may_open_a_session(login: int, who: uuid.UUID, allowed: bool, library: Path) -> None:
    device = Ta(library)
    device.log_in(login, who)
    assert device.open() == (SUCCESS if allowed else ACCESS_DENIED)
    assert device.lib.fake_open() == allowed
    if allowed:
        device.close()
        assert not device.lib.fake_open()


def test_a_second_session(device: Ta) -> None:
    assert device.open() == BUSY


def replayed(device: Ta, version: int, name: str = "lenet") -> int:
    """LOAD, and RUN if that went well."""
    result = device.load(version, name)
    return device.invoke(RUN) if result == SUCCESS else result


def test_versions_only_grow(device: Ta) -> None:
    for version, expected in ((3, SUCCESS), (3, SUCCESS), (5, SUCCESS), (4, OLDER), (0, OLDER), (5, SUCCESS)):
        assert replayed(device, version) == expected
        assert device.lib.fake_loaded() == (expected == SUCCESS)
    device.close()
    assert device.open() == SUCCESS
    assert device.load(4) == OLDER
    assert replayed(device, 0, "another") == SUCCESS
    assert device.lib.fake_objects() == 1  # version 0 needs none
    assert replayed(device, 1, "another") == SUCCESS
    assert replayed(device, 2**32 - 1, "lenet") == SUCCESS
    assert device.load(5) == OLDER
    assert device.lib.fake_objects() == 2


def test_a_trace_that_never_replays_well_leaves_the_counter(device: Ta) -> None:
    """The highest version there is: loaded, described and run without success, it locks nothing out."""
    assert replayed(device, 5) == SUCCESS
    for _ in range(2):
        assert device.load(2**32 - 1) == SUCCESS
        device.lib.fake_fail(RUN, BUSY)
        assert device.invoke(RUN) == BUSY
        device.lib.fake_fail(RUN, 0)
        assert replayed(device, 5) == SUCCESS
    assert device.load(6) == SUCCESS
    assert device.load(7, "another") == SUCCESS  # in its place
    assert device.invoke(RUN) == SUCCESS
    assert replayed(device, 5) == SUCCESS
    assert device.load(6, "another") == OLDER


def test_the_counter_is_written_once(device: Ta) -> None:
    """Of many replays, by the first; where a load goes wrong, by the next good replay of what stayed loaded."""
    assert device.load(5) == SUCCESS
    device.lib.fake_fail(LOAD, BUSY)
    assert device.invoke(LOAD) == BUSY
    device.lib.fake_fail(LOAD, 0)
    assert device.invoke(RUN) == SUCCESS
    device.lib.fake_storage(CORRUPT, NO_SPACE, 0)
    assert device.invoke(RUN) == SUCCESS
    device.lib.fake_storage(0, 0, 0)
    assert device.load(4) == OLDER


def test_the_longest_name_has_a_counter_of_its_own(device: Ta) -> None:
    longest = "n" * 64
    assert replayed(device, 2, longest) == SUCCESS
    assert replayed(device, 1, longest[:-1]) == SUCCESS
    assert device.load(1, longest) == OLDER


@pytest.mark.parametrize("storage", [(CORRUPT, 0, 0), (0, 0, 1), (0, 0, 4)], ids=["open", "short", "empty"])
def test_without_storage_nothing_is_loaded(storage: tuple[int, int, int], device: Ta) -> None:
    assert replayed(device, 5) == SUCCESS
    device.lib.fake_storage(*storage)
    assert device.load(6) == COUNTER
    assert not device.lib.fake_loaded()
    device.lib.fake_storage(0, 0, 0)
    assert device.load(5) == SUCCESS


def test_where_the_version_cannot_be_kept_nothing_goes_out(device: Ta) -> None:
    assert replayed(device, 5) == SUCCESS
    device.lib.fake_storage(0, NO_SPACE, 0)
    assert replayed(device, 6) == COUNTER
    assert not device.lib.fake_loaded()
    device.lib.fake_storage(0, 0, 0)
    assert replayed(device, 5) == SUCCESS


def test_a_trace_that_is_refused_leaves_the_counter(device: Ta) -> None:
    device.lib.fake_fail(LOAD, tee_result(next(iter(statuses()))))
    assert device.load(9) == tee_result(next(iter(statuses())))
    device.lib.fake_fail(DESCRIBE_TRACE, BUSY)
    assert device.load(9) == BUSY
    assert not device.lib.fake_loaded()
    device.lib.fake_fail(LOAD, 0)
    assert device.load(1) == SUCCESS


def test_an_allow_list_of_traces(tmp_path: Path, library: Path) -> None:
    policy = (SOURCES / "policy.h").read_text()
    changed = policy.replace("policy_traces[] = {NULL}", 'policy_traces[] = {"lenet", "mobilenet", NULL}')
    assert changed != policy
    device = Ta(compiled(tmp_path, changed))
    assert device.open() == SUCCESS
    found = [device.load(1, name) for name in ("lenet", "mobilenet", "lene", "lenet2", "")]
    assert found == [SUCCESS, SUCCESS, TRACE, TRACE, TRACE]
    assert not device.lib.fake_loaded()


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5])
def test_data_goes_in_and_out_in_pieces(size: int, device: Ta) -> None:
    data = np.random.default_rng(size).bytes(size)
    sizes = [PIECE] * (size // PIECE) + ([size % PIECE] if size % PIECE or not size else [])
    starts = [PIECE * index for index in range(len(sizes))]
    assert device.invoke(LOAD_DATA, data) == SUCCESS
    assert device.invoke(SET_INPUT, (3, 100), data) == SUCCESS
    rows = [(LOAD_DATA, IN, 0, 0, n) for n in sizes]
    rows += [(SET_INPUT, VALUE | IN << 4, 3, 100 + at, n) for at, n in zip(starts, sizes, strict=True)]
    assert device.calls == rows
    count = device.ffi.new("uint64_t *")
    assert bytes(device.ffi.buffer(device.lib.fake_data(count), 2 * size)) == data + data
    assert count[0] == 2 * size
    device.lib.fake_slot(size + 100)
    out = bytearray(size)
    assert device.invoke(GET_OUTPUT, (4, 100), out) == SUCCESS
    assert device.sizes[1] == size
    assert out == bytes((100 + index) % 251 for index in range(size))


@pytest.mark.parametrize("slot", [0, 10, PIECE, PIECE + 10, 2 * PIECE])
def test_an_output_that_is_smaller_than_the_room(slot: int, device: Ta) -> None:
    device.lib.fake_slot(slot)
    out = bytearray(2 * PIECE + 20)
    assert device.invoke(GET_OUTPUT, (0, 0), out) == SUCCESS
    assert device.sizes[1] == slot
    assert out[:slot] == bytes(index % 251 for index in range(slot))
    assert not any(out[slot:])


def test_an_error_ends_a_transfer(device: Ta) -> None:
    for command in (LOAD_DATA, SET_INPUT, GET_OUTPUT):
        device.lib.fake_reset()
        device.lib.fake_slot(4 * PIECE)
        device.lib.fake_fail(command, BUSY)
        data: Any = bytearray(3 * PIECE) if command == GET_OUTPUT else bytes(3 * PIECE)
        values = (data,) if command == LOAD_DATA else ((0, 0), data)
        assert device.invoke(command, *values) == BUSY
        assert len(device.calls) == 1


def test_offsets_that_would_wrap(device: Ta) -> None:
    for command, data in ((SET_INPUT, bytes(2)), (GET_OUTPUT, bytearray(2))):
        assert device.invoke(command, (0, 0xFFFFFFFE), data) == BAD_PARAMETERS
    assert device.calls == []


def test_short_answers(device: Ta) -> None:
    assert device.invoke(DESCRIBE, (0, 0), bytearray(87)) == SHORT_BUFFER
    assert device.sizes[1] == 88
    slot = bytearray(88)
    assert device.invoke(DESCRIBE, (0, 0), slot) == SUCCESS
    assert slot.startswith(b"data\0")
    device.lib.fake_manifest(manifest("lenet", 7))
    answer = bytearray(600)
    assert device.invoke(DESCRIBE_TRACE, answer) == SUCCESS
    assert device.sizes[0] == 512
    assert answer[:512] == manifest("lenet", 7)


@pytest.mark.parametrize(
    ("command", "values", "expected"),
    [
        (99, (), NOT_SUPPORTED),
        (LOAD_BEGIN, (b"x",), BAD_PARAMETERS),
        (LOAD_BEGIN, ((1, 0), (1, 0)), BAD_PARAMETERS),
        (LOAD_DATA, (bytearray(8),), BAD_PARAMETERS),
        (LOAD, ((1, 0),), BAD_PARAMETERS),
        (SET_INPUT, (b"x",), BAD_PARAMETERS),
        (GET_OUTPUT, ((0, 0), b"x"), BAD_PARAMETERS),
        (GET_LOG, (b"x",), BAD_PARAMETERS),
        (RUN, (b"x",), BAD_PARAMETERS),
    ],
)
def test_parameters_of_other_types(command: int, values: tuple[Any, ...], expected: int, device: Ta) -> None:
    assert device.invoke(command, *values) == expected
    assert device.calls == []


def test_commands_without_memory_go_on_as_they_are(device: Ta) -> None:
    assert device.invoke(LOAD_BEGIN, (7, 1)) == SUCCESS
    assert [device.invoke(command) for command in (RUN, UNLOAD)] == [SUCCESS, SUCCESS]
    assert device.calls == [(LOAD_BEGIN, VALUE, 7, 1, 0), (RUN, NONE, 0, 0, 0), (UNLOAD, NONE, 0, 0, 0)]


def test_results_of_its_own_are_no_status() -> None:
    assert not {OLDER, TRACE, COUNTER, LOG} & {tee_result(value) for value in statuses()}


def test_a_ta_without_a_log_has_no_such_commands(device: Ta) -> None:
    for command in (LOG_OPEN, LOG_TAIL, GET_ENTRIES, ATTEST, DEVICE_KEY):
        assert device.invoke(command) == NOT_SUPPORTED
    assert device.calls == []


def test_keys_that_cannot_sign_a_ta(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(b"no key")
    with pytest.raises(RunnerError, match=r"key.pem: expected a private RSA key"):
        ta.public_part(path)
    key = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(RunnerError, match="found one of another kind"):
        ta.public_part(path)
    good = rsa.generate_private_key(65537, 2048)
    path.write_bytes(good.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert ta.public_part(path).startswith(b"-----BEGIN PUBLIC KEY-----")


def test_a_folder_that_is_no_ta(tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match="Makefile: No such file"):
        ta.build_ta(tmp_path)
    (tmp_path / "Makefile").write_text("all:\n")
    with pytest.raises(RunnerError, match="expected a line BINARY := UUID"):
        ta.build_ta(tmp_path)
