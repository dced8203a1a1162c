"""What daemons of earlier versions have remembered, and a daemon of today goes on from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from offsetwatch.daemon.state_dir import StateDir
from tests.upgrade import opened, state_files

ALL = opened.milestones("state")
NAMES = ("findings", "judge", "notify", "replication")


@pytest.fixture(scope="module", params=ALL)
def milestone(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def restored(milestone: str) -> dict[str, Any]:
    """What a daemon of today shows, that found what one of then has left."""
    return state_files.act(opened.state(milestone))[1]


@pytest.fixture(scope="module")
def forgetful() -> dict[str, Any]:
    """What one shows that found nothing."""
    return state_files.act({})[1]


@pytest.mark.parametrize("what", ["findings", "verdicts", "lost", "losses", "recreations", "told"])
@pytest.mark.parametrize("moment", state_files.LOOKS)
def test_a_daemon_goes_on_from_an_older_memory_as_the_older_one_would_have(
    milestone, restored, moment, what
):
    expected = opened.expected(milestone, "state")
    then = expected[moment][what]
    now = restored[moment][what]
    if what == "recreations":
        now = fields_of(now, then)
    elif what == "verdicts":
        then = then | flows_unseen(expected, moment)
    assert now == then


def flows_unseen(expected: dict[str, Any], moment: str) -> dict[str, Any]:
    """Return the verdicts of today for flows of which nothing was visible after the replacement.

    Code of then gave them rule 0, after which a verdict began anew. By rule 1, for an input that is
    not read yet, it goes on from the moment before.
    """
    first, before = state_files.LOOKS[0], expected[state_files.REPLACED]["verdicts"]
    unseen = {
        key
        for key, verdict in expected[first]["verdicts"].items()
        if key.endswith(" flow") and verdict["rule"] == 0
    }
    verdicts = expected[moment]["verdicts"]
    if moment == first:
        return {key: verdicts[key] | {"rule": 1} for key in unseen}
    return {key: verdicts[key] | {"since": before[key]["since"]} for key in unseen}


def fields_of(now: list[str], then: list[str]) -> list[str]:
    """Return the documents of now without the fields that those of then had not."""
    known = {field for document in then for field in json.loads(document)}
    return [
        json.dumps(
            {name: value for name, value in json.loads(document).items() if name in known},
            sort_keys=True,
        )
        for document in now
    ]


@pytest.mark.parametrize("what", ["findings", "verdicts", "lost", "losses", "recreations", "told"])
def test_nothing_of_it_could_be_known_without_that_memory(forgetful, what):
    then = opened.expected(ALL[-1], "state")
    assert any(forgetful[moment][what] != then[moment][what] for moment in state_files.LOOKS)


def test_no_older_memory_is_put_aside(milestone, tmp_path):
    """As state_dir does with what a part refuses."""
    documents = opened.state(milestone)
    refused = []
    state = StateDir(tmp_path / "state")
    try:
        for name in NAMES:
            state.save(name, documents[name])
        for name, into in state_files.parts().items():
            state.recall(name, into)
            refused += [item.name for item in (tmp_path / "state").glob("*.damaged.json")]
    finally:
        state.close()
    assert sorted(documents) == list(NAMES)
    assert refused == []


@pytest.mark.parametrize("name", NAMES)
def test_a_memory_of_a_newer_version_is_put_aside_as_it_is_and_begun_again(name, tmp_path):
    newer = json.loads(opened.state(ALL[-1])[name])
    newer["version"] += 1
    document = json.dumps(newer).encode()
    state = StateDir(tmp_path / "state")
    try:
        state.save(name, document)
        state.recall(name, state_files.parts()[name])
    finally:
        state.close()
    assert not (tmp_path / "state" / f"{name}.json").exists()
    assert (tmp_path / "state" / f"{name}.damaged.json").read_bytes() == document


def test_a_story_has_every_kind_of_memory_in_it():
    """Otherwise nothing would be proven of what is missing."""
    for milestone in ALL:
        then = opened.expected(milestone, "state")[state_files.REPLACED]
        assert all(then[what] for what in ("findings", "verdicts", "losses", "recreations", "told"))
