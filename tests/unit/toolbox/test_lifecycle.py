"""A connector created with offsets: checked first, and nothing left where a step fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from offsetwatch.config import Config, Connect, Kafka
from offsetwatch.errors import MalformedResponse
from offsetwatch.remedy.execute.runner import PlanResult, Runner
from offsetwatch.remedy.journal.journal import Journal
from offsetwatch.remedy.model.plan import Create, PlanStatus, RequestedState
from offsetwatch.toolbox.change import Author, PreparedChange
from offsetwatch.toolbox.lifecycle import (
    CreationRequest,
    InitialOffsets,
    parse_request,
    prepare_create,
)
from offsetwatch.toolbox.store.rest import RestOffsetStore
from tests.fakes import connect as fake
from tests.fakes.clock import VirtualClock
from tests.fakes.connect_model.answers import NOT_MODIFIABLE

FILE = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "file": "/a",
    "topic": "t",
    "tasks.max": 1,
    "database.password": "hunter2",
}
HERE = {"filename": "/a"}
CLOCK = VirtualClock()  # of the driver and of the runner


@pytest.fixture
def worker() -> Iterator[fake.Connect]:
    with fake.serving() as served:
        yield served


def document(*pairs: tuple[dict[str, Any], Any]) -> bytes:
    return json.dumps({"offsets": [{"partition": p, "offset": o} for p, o in pairs]}).encode()


BEGIN = document((HERE, {"position": 7}))


def prepared(worker: fake.Connect, offsets: bytes | None = BEGIN, **more: Any) -> PreparedChange:
    connect = Connect(name="cc", kafka="k", url=worker.url)
    config = Config(kafka={"k": Kafka(bootstrap="127.0.0.1:1")}, connect=[connect])
    request = CreationRequest(
        config={**FILE, **more.pop("config", {})},
        offsets=None if offsets is None else InitialOffsets(offsets, "begin.json", is_part=False),
        state=more.pop("state", RequestedState.RUNNING),
    )
    store = RestOffsetStore(config, connect, clock=CLOCK)
    author = Author("p-1", 0.0, "me")
    return prepare_create(store, "new", request, author, **{"allow_new": False, **more})


def carried_out(change: PreparedChange, folder: Path) -> tuple[PlanResult, list[str]]:
    messages: list[str] = []
    assert change.plan is not None, change.problems
    with closing(Journal(folder)) as journal:
        runner = Runner(
            journal=journal,
            driver=change.driver,
            clock=CLOCK,
            report=messages.append,
            pause=CLOCK.advance,
        )
        return runner.run(change.plan, change.recheck), messages


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (RequestedState.RUNNING, "RUNNING"),
        (RequestedState.PAUSED, "PAUSED"),
        (RequestedState.STOPPED, "STOPPED"),
    ],
)
def test_it_begins_at_its_offsets_in_the_state_that_is_requested(worker, tmp_path, state, expected):
    result, _ = carried_out(prepared(worker, state=state), tmp_path)
    assert result.ending is PlanStatus.SUCCEEDED
    assert worker.connectors["new"].state == expected
    assert worker.offsets["new"] == {'{"filename":"/a"}': {"position": 7}}
    (created,) = [body for method, path, body in worker.requests if (method, path) == POST]
    assert created["initial_state"] == "STOPPED"


POST = ("POST", "/connectors")


def test_what_a_namesake_left_is_backed_up_and_not_merged(worker, tmp_path):
    worker.commit("new", {"filename": "/long/gone"}, {"position": 99})
    result, _ = carried_out(prepared(worker), tmp_path)
    assert result.ending is PlanStatus.SUCCEEDED
    assert worker.offsets["new"] == {'{"filename":"/a"}': {"position": 7}}
    assert json.loads(Path(result.backup).read_text()) == {
        "new": [{"partition": {"filename": "/long/gone"}, "offset": {"position": 99}}]
    }


def test_offsets_that_the_connector_refuses_undo_its_creation(worker, tmp_path):
    worker.commit("new", {"filename": "/long/gone"}, {"position": 99})
    worker.fail("PATCH", "/offsets", 500, "Partition objects should contain the key 'x'")
    result, answer = carried_out(prepared(worker), tmp_path)
    assert result.ending is PlanStatus.RESTORED
    assert result.exit_code == 3
    assert "new" not in worker.connectors
    assert worker.offsets["new"] == {'{"filename":"/long/gone"}': {"position": 99}}
    assert "should contain the key" in result.said
    assert any("set the offsets" in line for line in answer)


def test_a_configuration_that_connect_refuses_leaves_nothing_and_says_which_setting(
    worker, tmp_path
):
    worker.fail(
        *POST,
        400,
        "Connector configuration is invalid and contains the following 1 error(s):\n"
        "Invalid value hunter2 for configuration database.password: too short",
    )
    result, answer = carried_out(prepared(worker), tmp_path)
    assert result.ending is not PlanStatus.SUCCEEDED
    assert worker.connectors == {}
    assert "database.password" in result.said
    assert "hunter2" not in "".join((result.said, *answer))


def test_a_creation_that_is_carried_out_late_is_deleted_again(worker, tmp_path):
    worker.fail(*POST, 500, fake.TIMED_OUT, late=3)
    worker.fail("PATCH", "/offsets", 500, "Offset objects should either be null or something")
    result, _ = carried_out(prepared(worker), tmp_path)
    assert result.ending is PlanStatus.RESTORED
    assert worker.connectors == {}


def test_no_secret_is_in_plan_journal_or_words(worker, tmp_path):
    change = prepared(worker)
    result, answer = carried_out(change, tmp_path)
    assert isinstance(change.plan.steps[0], Create)
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"hunter2" not in everything
    assert "hunter2" not in repr((change, result, answer))
    assert worker.connectors["new"].config["database.password"] == "hunter2"


@pytest.mark.parametrize(
    ("offsets", "wrong"),
    [
        pytest.param(document((HERE, {"position": -1})), "position", id="not an offset"),
        pytest.param(document(({"filename": "/b"}, {"position": 1})), "/b", id="not its file"),
        pytest.param(document((HERE, None)), "leave its partition out", id="none"),
        pytest.param(document(), "no partition", id="empty"),
        pytest.param(b'{"old": []}', "none for new: old", id="another connector's"),
        pytest.param(b"{", "", id="no JSON"),
    ],
)
def test_offsets_that_cannot_be_its_own_are_refused_before_it_is_created(worker, offsets, wrong):
    change = prepared(worker, offsets)
    assert change.plan is None
    assert wrong in " ".join(str(problem) for problem in change.problems)
    assert worker.changes() == []


def test_a_name_that_is_taken_and_a_class_that_is_not_there_are_said_together(worker):
    worker.add("new")
    worker.plugins = {}
    text = " ".join(str(problem) for problem in prepared(worker).problems)
    assert "has a connector of this name" in text
    assert "FileStreamSourceConnector" in text
    assert "hunter2" not in text


def test_a_class_that_may_be_a_plugin_that_cannot_be_read_is_not_said_to_be_missing(worker):
    worker.odd_plugins = ["org.example.Text"]
    assert prepared(worker).problems == ()
    worker.plugins = {"org.example.Other": "sink"}
    with pytest.raises(MalformedResponse, match=r'without a class: 1 .*"org.example.Text"'):
        prepared(worker)


def test_a_cluster_that_cannot_create_stopped_is_advised_how_to_by_hand(worker):
    worker.version = "3.6.2"
    (problem,) = prepared(worker).problems
    assert "3.6.2" in str(problem)
    assert "connectors stop new" in str(problem)


# --- the file ------------------------------------------------------------------------------------


def test_settings_alone_and_a_body_of_post_are_the_same_configuration():
    body = {"name": "new", "config": FILE}
    expected = CreationRequest({**FILE, "name": "new"})
    assert parse_request("new", json.dumps(FILE).encode()) == expected
    assert parse_request("new", json.dumps(body).encode()) == expected


def test_one_body_holds_the_offsets_and_the_state_too(worker, tmp_path):
    pairs = b'[{"partition": {"filename": "/a"}, "offset": {"position": 12345678901234567890}}]'
    body = {"name": "new", "config": FILE, "initial_state": "PAUSED"}
    raw = json.dumps(body).encode()[:-1] + b', "initial_offsets": ' + pairs + b"}"
    request = parse_request("new", raw)
    assert isinstance(request, CreationRequest)
    assert (request.offsets, request.state) == (InitialOffsets(pairs), RequestedState.PAUSED)
    assert "hunter2" not in repr(request)
    small = pairs.replace(b"12345678901234567890", b"7")
    result, _ = carried_out(prepared(worker, small, state=RequestedState.PAUSED), tmp_path)
    assert result.ending is PlanStatus.SUCCEEDED
    assert worker.offsets["new"] == {'{"filename":"/a"}': {"position": 7}}


def test_without_offsets_it_begins_as_connect_lets_it(worker, tmp_path):
    worker.commit("new", {"filename": "/long/gone"}, {"position": 99})
    change = prepared(worker, None)
    assert "continues from offsets that an earlier connector" in change.notes[0]
    result, _ = carried_out(change, tmp_path)
    assert result.ending is PlanStatus.SUCCEEDED
    assert worker.connectors["new"].state == "RUNNING"
    assert worker.offsets["new"] == {'{"filename":"/long/gone"}': {"position": 99}}


@pytest.mark.parametrize(
    "message",
    [
        NOT_MODIFIABLE.format("new"),
        "these offsets are not to my taste",
    ],
)
def test_a_connector_that_takes_no_offsets_is_deleted_again_at_once(worker, tmp_path, message):
    worker.fail("PATCH", "/offsets", 500, message)
    began = CLOCK.now()
    result, answer = carried_out(prepared(worker), tmp_path)
    assert (result.ending, result.exit_code) == (PlanStatus.RESTORED, 3)
    assert "new" not in worker.connectors
    assert message in result.said
    assert sum(method == "PATCH" for method, _, _ in worker.requests) == 1
    assert CLOCK.now() - began < 60.0, answer


@pytest.mark.parametrize(
    ("raw", "wrong"),
    [
        (b"connector.class=x", "not JSON"),
        (b"[1]", "no JSON object"),
        (b"{}", "no connector.class"),
        (b'{"connector.class": "C", "name": "old"}', "another connector's"),
        (b'{"connector.class": "C", "a": {"hunter2": 1}}', "a: is no single value"),
        (b'{"config": {"connector.class": "C"}, "initial_state": "x"}', "is no state"),
        (b'{"config": {"connector.class": "C"}, "initial_offsets": []}', "leave it out"),
        (b'{"config": {"connector.class": "C"}, "initial_offsets": {"a": 1}}', "a list of"),
        (b'{"config": {"connector.class": "C"}, "offsets": []}', "is no part of this"),
    ],
)
def test_a_configuration_that_is_none_is_refused_without_its_values(raw, wrong):
    request = parse_request("new", raw)
    assert isinstance(request, tuple)
    text = " ".join(str(problem) for problem in request)
    assert wrong in text
    assert "hunter2" not in text


def test_a_plan_that_was_made_does_not_show_the_configuration():
    expected = CreationRequest(FILE, InitialOffsets(b""), RequestedState.RUNNING)
    assert "hunter2" not in repr(expected)
