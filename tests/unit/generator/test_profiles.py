# SPDX-License-Identifier: BSD-2-Clause
"""The profiles, and what a table of features may say."""

from __future__ import annotations

from typing import Any

import pytest

from tee_replayer.generator import profiles
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.profiles import NAMES, FeatureError, Features, read
from trace_format.operators import OPERATORS, Operator
from trace_format.toml_table import Table


def features(profile: str = "", **rows: Any) -> Features:
    return read(Table(rows, "features", FeatureError), profiles.named(profile) if profile else None)


def test_each_feature_is_in_a_profile_and_each_set_in_one() -> None:
    rows = profiles.load().values()
    assert {name for row in rows for name in row.features.names} == set(NAMES)
    assert len({row.features.names for row in rows}) == len(rows)
    assert all(row.features.profile == row.name and row.use.endswith(".") for row in rows)
    assert profiles.named("plain").features == Features()
    assert profiles.named("fleet").features.names == ("trust", "evidence", "store")


@pytest.mark.parametrize("profile", list(profiles.load()))
def test_what_is_said_of_features_is_read_back(profile: str) -> None:
    found = profiles.named(profile).features
    assert features(**found.rows) == features(profile) == found


def test_a_table_says_more_of_a_profile() -> None:
    found = features("scheduled", networks=2)
    assert (found.networks, found.schedule, found.profile) == (2, 8, "scheduled")
    assert features("logged", evidence=True).evidence == Evidence(log=True)
    assert features("operators", operators=["flip", "copy"]).operators == (Operator.COPY, Operator.FLIP)
    assert features(operators=True).operators == tuple(OPERATORS)


def test_other_features_are_an_untested_combination() -> None:
    found = features(steps=True, store=True)
    assert (found.profile, found.words) == ("", "untested combination: steps, store")
    assert features().words == "profile plain: no feature"


@pytest.mark.parametrize(
    ("profile", "rows", "message"),
    [
        (
            "",
            {"step": True},
            "features: unknown feature step (did you mean 'steps'?): expected some of trust, enc",
        ),
        ("", {"steps": False}, "features: steps: expected true, or no such key, found false"),
        ("", {"steps": 1}, "features: steps: expected true, or no such key, found 1"),
        ("", {"networks": True}, "features: networks: expected a number from 2 to 8, found true"),
        ("", {"networks": 1}, "features: networks: expected a number from 2 to 8, found 1"),
        ("", {"networks": 9}, "features: networks: expected a number from 2 to 8, found 9"),
        ("", {"networks": 2, "steps": True, "schedule": 65}, "features: schedule: expected a number from 1 to 64"),
        ("", {"schedule": 1}, "features: schedule requires networks"),
        ("", {"schedule": 1, "networks": 2}, "features: schedule requires steps"),
        ("", {"clock": True}, "features: clock requires trust"),
        ("", {"networks": 2, "evidence": True}, "features: evidence and networks are mutually exclusive"),
        (
            "",
            {"evidence": ["hash"]},
            "features: evidence (did you mean 'hashes'?): expected a list of some of hashes",
        ),
        ("", {"evidence": []}, "features: evidence: expected a list of some of hashes, attestations, found []"),
        (
            "",
            {"evidence": "hashes"},
            "features: evidence: expected a list of some of hashes, attestations, found 'ha",
        ),
        ("", {"operators": ["copy", 1]}, "features: operators: expected a list of some of copy, "),
        ("", {"operators": [{"x": 1}]}, "features: operators: expected a list of some of copy, "),
        ("plain", {"steps": True}, "features: steps: the profile plain has no feature; leave 'profile' out"),
        (
            "fleet",
            {"steps": True},
            "features: steps: the profile fleet has trust, evidence, store; leave 'profile' ",
        ),
    ],
)
def test_what_a_table_must_not_say(profile: str, rows: dict[str, Any], message: str) -> None:
    with pytest.raises(FeatureError) as error:
        features(profile, **rows)
    assert str(error.value).startswith(message)


def test_an_unknown_profile() -> None:
    with pytest.raises(FeatureError, match=r"profile \(did you mean 'fleet'\?\): expected one of plain, .*'flet'"):
        profiles.named("flet")
