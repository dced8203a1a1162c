"""Ends of sources as daemons of earlier versions kept them, taken up by a daemon of today."""

from __future__ import annotations

import json

import pytest

from offsetwatch.daemon.state_dir import StateDir
from tests.scenarios.daemon import Daemon
from tests.scenarios.script import read
from tests.scenarios.world import World
from tests.upgrade import opened, source_ends

ALL = opened.milestones("sources")


@pytest.fixture(scope="module", params=ALL)
def milestone(request: pytest.FixtureRequest) -> str:
    return request.param


def document(milestone: str) -> bytes:
    return (opened.MADE / milestone / "sources" / "sources.json").read_bytes()


def test_a_daemon_goes_on_from_older_ends_as_the_older_one_would_have(milestone):
    observed = source_ends.act(document(milestone))[1]
    then = opened.expected(milestone, "sources")
    assert [observed[moment] for moment in source_ends.LOOKS] == [
        then[moment] for moment in source_ends.LOOKS
    ]


def test_since_when_rows_wait_and_which_server_it_was_cannot_be_known_without_them():
    forgetful = source_ends.act(b'{"version":1,"sources":{}}')[1][source_ends.LOOKS[0]]
    then = opened.expected(ALL[-1], "sources")[source_ends.LOOKS[0]]
    assert {name for name in then if forgetful[name] != then[name]} == {
        "bills bills",
        "books books",
        "shop shop",
    }


@pytest.mark.parametrize("newer", [False, True])
def test_only_ends_of_a_newer_version_are_put_aside(milestone, tmp_path, newer):
    kept = json.loads(document(milestone))
    kept["version"] += newer
    state = StateDir(tmp_path / "state")
    try:
        state.save(source_ends.NAME, json.dumps(kept).encode())
        daemon = Daemon(World(read(source_ends.STORY)))
        assert daemon.loop is not None
        daemon.loop.recall_with(
            lambda name, into: state.recall(name, into) if name == source_ends.NAME else None
        )
    finally:
        state.close()
    damaged = [path.name for path in (tmp_path / "state").glob("*.damaged.json")]
    assert damaged == ["sources.damaged.json"] * newer
