# SPDX-License-Identifier: BSD-2-Clause
"""The device's decoder of byte planes against the host's, and on sections that no encoder would write."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tee_replayer.generator import hostlib
from tests.support import planes_samples as samples
from tests.support import replayer_samples as s
from trace_format import planes
from trace_format.schema import Codec

CHUNKS = st.sampled_from([1, 7, 4096])


def decode(stored: bytes, out_bytes: int, chunk_bytes: int = 4096) -> bytes | None:
    """Output of the device's decoder; None: refused."""
    return hostlib.decode(s.library(), Codec.PLANES, stored, out_bytes, chunk_bytes)


def by_host(stored: bytes, out_bytes: int) -> bytes | None:
    """Output of the host's."""
    try:
        return planes.decode(stored, out_bytes)
    except planes.PlanesError:
        return None


@given(st.integers(0, 99), st.integers(0, 5000), st.sampled_from([2, 7, 60, 256]), CHUNKS)
def test_what_was_encoded_comes_back(seed: int, size: int, values: int, chunk_bytes: int) -> None:
    raw = (np.random.default_rng(seed).geometric(0.2, size) % values).astype(np.uint8).tobytes()
    assert decode(planes.encode(raw), size, chunk_bytes) == raw


def test_weights_come_back() -> None:
    raw = np.random.default_rng(1).normal(0, 0.1, 100_000).astype("<f4").tobytes()
    stored = planes.encode(raw)
    assert len(stored) < 0.85 * len(raw)
    assert decode(stored, len(raw)) == raw


def test_the_code_of_rfc_1951() -> None:
    assert decode(samples.GOOD, len(samples.RAW)) == samples.RAW


@pytest.mark.parametrize("name", samples.MALFORMED)
@pytest.mark.parametrize("chunk_bytes", [1, 4096])
def test_malformed(name: str, chunk_bytes: int) -> None:
    assert decode(*samples.MALFORMED[name], chunk_bytes) is None


@given(st.data(), CHUNKS)
def test_a_changed_section_is_decoded_as_by_the_host(data: st.DataObject, chunk_bytes: int) -> None:
    """A byte or two of a good one, or its size."""
    stored = bytearray(sample())
    for _ in range(data.draw(st.integers(1, 2))):
        stored[data.draw(st.integers(0, len(stored) - 1))] ^= data.draw(st.integers(1, 255))
    size = data.draw(st.sampled_from([len(SAMPLE), len(SAMPLE) - 1, len(SAMPLE) + 8]))
    assert decode(bytes(stored), size, chunk_bytes) == by_host(bytes(stored), size)


SAMPLE = (np.random.default_rng(5).geometric(0.4, 900) % 16).astype(np.uint8).tobytes()


@functools.cache
def sample() -> bytes:
    """Planes of it, all of them coded."""
    stored = planes.encode(SAMPLE)
    assert len(stored) < 0.6 * len(SAMPLE)
    return stored


@given(st.binary(max_size=300), st.integers(0, 2000), CHUNKS)
def test_random_bytes_are_decoded_as_by_the_host(stored: bytes, out_bytes: int, chunk_bytes: int) -> None:
    assert decode(stored, out_bytes, chunk_bytes) == by_host(stored, out_bytes)


def test_a_device_without_it_has_no_decoder() -> None:
    library = s.library(codecs=())
    assert hostlib.decode(library, Codec.PLANES, samples.GOOD, len(samples.RAW), 4096) is None
