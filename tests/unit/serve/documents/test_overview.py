"""The status page's document, the last hour, and the files of the page."""

from __future__ import annotations

import json
import re
import shlex

import httpx
import pytest

from offsetwatch.cli.plans.commands import plan_approve
from offsetwatch.model.connectors import ConnectorKind, Task, compute_urgency
from offsetwatch.serve.documents import overview, trends
from offsetwatch.serve.http import page_files
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, RestConnector, Snapshot
from offsetwatch.state.totals import Trends
from tests.browser import worlds
from tests.changed import replace
from tests.unit.serve.http.test_read_listener import World, serving
from tests.unit.serve.worlds import FOUND, JUDGED, MIRROR, SINK, full

OPTIONS = "--config /etc/offsetwatch.yaml"


def document(snapshot: Snapshot, *, alive: bool = True):
    body = overview.encode_overview(snapshot, version="1.2.3", alive=alive, options=OPTIONS)
    return json.loads(body)


def row(snapshot: Snapshot, name: str):
    (connector,) = (
        any_connector
        for any_connector in document(snapshot)["connectors"]
        if any_connector["name"] == name
    )
    return connector


# --- the overview ---------------------------------------------------------------------------------


def test_a_connector_has_its_verdict_with_evidence():
    result = row(replace(full(), judgements=(JUDGED,)), "mirror")
    assert (result["verdict"], result["rule"]) == ("silent", JUDGED.rule)
    assert result["evidence"] == [{"name": "lag", "value": 379, "unit": "records"}]


def test_what_is_not_known_is_null_and_never_0():
    result = row(replace(full(), judgements=()), "idle")
    unknown = ("verdict", "reason", "position", "committed_at", "lag_records", "lag_seconds")
    assert {name: result[name] for name in unknown} == dict.fromkeys(unknown)


def test_a_failed_task_is_the_state_of_its_connector_and_its_flow():
    snapshot = full()
    failing = tuple(
        replace(connector, state="running", tasks=(Task(0, "failed"),))
        for connector in snapshot.connectors
    )
    result = document(replace(snapshot, connectors=failing, judgements=()))
    listed = {connector.name for connector in snapshot.connectors}
    rows = [connector for connector in result["connectors"] if connector["name"] in listed]
    rows += [flow for flow in result["flows"] if flow["connector"] in listed]
    assert {flow["connector"] for flow in result["flows"]} & listed
    assert {(item["worst_state"], item["urgency"]) for item in rows} == {("failed", 0)}


def test_what_is_paused_comes_before_what_is_well():
    snapshot = full()
    (first, *_) = snapshot.connectors
    rows = [
        row(replace(snapshot, connectors=(replace(first, state=state, tasks=()),)), first.name)
        for state in ("paused", "stopped")
    ]
    assert all(item["urgency"] < compute_urgency("running", "ok") for item in rows)


@pytest.mark.parametrize(
    ("kind", "class_name", "has_lag"),
    [
        (ConnectorKind.SOURCE, "org.example.Files", False),
        (ConnectorKind.SINK, "org.example.Lake", True),
        (ConnectorKind.UNKNOWN, "", True),
        (ConnectorKind.MIRROR, "org.apache.kafka.connect.mirror.MirrorSourceConnector", True),
        (ConnectorKind.MIRROR, "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector", False),
        (ConnectorKind.MIRROR, "MirrorCheckpointConnector", False),
    ],
)
def test_lag_is_not_applicable_where_nothing_reports_an_end(kind, class_name, has_lag):
    snapshot = full()
    (first, *_) = snapshot.connectors
    connector = replace(first, kind=kind, class_name=class_name)
    assert row(replace(snapshot, connectors=(connector,)), first.name)["has_lag"] is has_lag


def test_what_is_polled_over_rest_is_marked_so():
    polled = (RestConnector("lab", "files"),)
    snapshot = replace(full(), by_rest=polled)
    assert {
        connector["name"]: connector["from"] for connector in document(snapshot)["connectors"]
    } == {
        name: "rest" if name == "files" else None
        for name in (connector["name"] for connector in document(full())["connectors"])
    }
    assert {mirror_flow["from"] for mirror_flow in document(full())["flows"]} == {None}
    flow = document(full())["flows"][0]
    snapshot = replace(full(), by_rest=(RestConnector(flow["connect_cluster"], flow["connector"]),))
    assert document(snapshot)["flows"][0]["from"] == "rest"


def test_a_connector_that_is_not_listed_has_no_state():
    result = row(replace(full(), connectors=()), "files")
    assert (result["kind"], result["state"], result["tasks"]) == ("unknown", None, {})


def test_tasks_are_counted_by_state():
    assert row(full(), "files")["tasks"] == {"running": 2, "failed": 1}


def test_a_flow_that_is_known_and_has_no_partition_yet_is_there():
    snapshot = replace(worlds.full(), mirror_partitions=())
    flows = document(snapshot)["flows"]
    assert [(flow["source"], flow["partitions"], flow["lag_records"]) for flow in flows] == [
        ("south", 0, None),
        ("west", 0, None),
    ]


def test_findings_are_reported_as_in_their_own_document():
    findings = document(replace(full(), findings=(FOUND,)))["findings"]
    assert findings[0]["summary"] == FOUND.summary
    assert findings[0]["evidence"] == [{"name": "lag", "value": 379, "unit": "records"}]


def test_inputs_that_report_nothing_are_named():
    result = document(full())
    assert result["inputs"] == 3
    assert {item["input"] for item in result["inputs_down"]} == {
        "lab",
        "west/mm2-offset-syncs.east.internal",
    }


def test_a_long_position_is_cut():
    view = replace(full().source_partitions[0], connector="long")
    assert view.offset is not None
    long = replace(view, offset=replace(view.offset, text="9" * 10_000))
    result = row(replace(EMPTY_SNAPSHOT, at=1.0, source_partitions=(long,)), "long")
    assert len(result["position"]) == overview.POSITION_CHARS_MAX + 1


def test_where_remediation_does_not_run_nothing_is_said_of_it():
    assert document(replace(full(), remedies=None))["remedies"] is None


def test_a_plan_that_waits_has_the_command_that_approves_it():
    (plan,) = document(worlds.full())["remedies"]["plans"]
    command, verb, approve, *arguments = shlex.split(plan["approve"])
    assert (command, verb, approve) == ("offsetwatch", "plan", "approve")
    inputs = plan_approve.make_context("approve", arguments[:-2]).params
    assert inputs["plan_id"] == worlds.PLAN.plan_id
    assert inputs["sha256"] == worlds.PLAN.sha256
    assert arguments[-2:] == OPTIONS.split()


@pytest.mark.parametrize("state", ["approved", "running", "parked", "expired"])
def test_a_plan_that_is_decided_has_no_command(state):
    snapshot = worlds.full()
    assert snapshot.remedies is not None
    decided = replace(snapshot.remedies, open_plans=(replace(worlds.PLAN, state=state),))
    (plan,) = document(replace(snapshot, remedies=decided))["remedies"]["plans"]
    assert plan["approve"] is None


def test_every_guard_has_its_answer():
    (plan,) = document(worlds.full())["remedies"]["plans"]
    assert [tuple(guard.values()) for guard in plan["guards"]] == [
        (guard.number, guard.guard, guard.answer, guard.said, guard.asks)
        for guard in worlds.PLAN.guards
    ]


# --- the last hour --------------------------------------------------------------------------------


def test_every_minute_has_a_value_or_null():
    observed, marks = Trends(), ()
    for minute, lag in enumerate((4, None, 6)):
        sink = replace(SINK, lag=lag, behind_since=None)
        marks = observed.add(replace(EMPTY_SNAPSHOT, at=60.0 * minute, sink_partitions=(sink,)))
    result = json.loads(trends.encode_trends(replace(EMPTY_SNAPSHOT, trends=marks)))
    assert (result["since"], result["at"], result["minutes"]) == (
        "1970-01-01T00:00:00Z",
        "1970-01-01T00:02:00Z",
        ["1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z", "1970-01-01T00:02:00Z"],
    )
    assert result["connectors"] == [
        {
            "connect_cluster": "lab",
            "name": "out",
            "lag_records": [4, None, 6],
            "lag_seconds": None,
            "quiet_seconds": None,
        }
    ]


def test_who_comes_later_has_gaps_before_and_who_is_gone_has_no_row():
    observed = Trends()
    gone, stays, new = (replace(MIRROR, connector=name) for name in ("gone", "stays", "new"))
    observed.add(replace(EMPTY_SNAPSHOT, at=0.0, mirror_partitions=(gone, stays)))
    marks = observed.add(replace(EMPTY_SNAPSHOT, at=60.0, mirror_partitions=(stays, new)))
    result = json.loads(trends.encode_trends(replace(EMPTY_SNAPSHOT, trends=marks)))
    lags = {flow["connector"]: flow["lag_records"] for flow in result["flows"]}
    assert lags == {"new": [None, 379], "stays": [379, 379]}


def test_before_the_first_minute_there_is_nothing():
    result = json.loads(trends.encode_trends(replace(EMPTY_SNAPSHOT, at=1.0)))
    assert (result["since"], result["minutes"], result["connectors"]) == (None, [], [])


# --- over HTTP ------------------------------------------------------------------------------------


@pytest.fixture
def world() -> World:
    built = World()
    built.now = worlds.full()
    return built


@pytest.fixture
def client(world):
    with serving(world) as client:
        yield client


def test_a_document_may_be_of_one_connector_alone(client):
    requests = {"connect_cluster": "lab", "connector": "copy-west"}
    (connector,) = client.get("/api/v1/connectors", params=requests).json()["connectors"]
    assert connector["name"] == "copy-west"
    (flow,) = client.get("/api/v1/flows", params=requests).json()["flows"]
    assert flow["connector"] == "copy-west"
    requests["connect_cluster"] = "another"
    assert client.get("/api/v1/connectors", params=requests).json()["connectors"] == []


def test_the_last_hour_is_sent_again_only_when_it_has_changed(client, world):
    first = client.get("/api/v1/trends")
    known = {"If-None-Match": first.headers["ETag"]}
    again = client.get("/api/v1/trends", headers=known)
    assert (again.status_code, again.content) == (304, b"")
    marks = Trends().add(replace(world.now, at=world.now.at + 60.0))
    world.now = replace(world.now, trends=(*world.now.trends[1:], *marks))
    assert client.get("/api/v1/trends", headers=known).status_code == 200


def test_the_overview_says_when_the_main_loop_has_stopped(client, world):
    assert client.get("/api/v1/overview").json()["alive"] is True
    world.alive = False
    assert client.get("/api/v1/overview").json()["alive"] is False


def test_everything_that_the_page_names_is_served_and_nothing_else(client):
    text = client.get("/").text
    named = set(re.findall(r'(?:src|href)="static/([^"]+)"', text))
    served = page_files.load_assets("1")[1]
    for script in (name for name in served if name.endswith(".js")):
        named |= set(re.findall(r'from "\./([^"]+)"', served[script].body.decode()))
    assert named == set(served)
    for name in named:
        answer = client.get(f"/static/{name}")
        assert answer.status_code == 200
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert client.get("/static/page.py").status_code == 404
    assert client.get("/static/..%2Fpage.py").status_code == 404


def test_a_file_that_the_browser_has_is_not_sent_again(client):
    etag = client.get("/static/page.js").headers["ETag"]
    assert client.get("/static/page.js", headers={"If-None-Match": etag}).status_code == 304
    assert client.get("/static/page.js", headers={"If-None-Match": '"x"'}).status_code == 200


def test_the_page_allows_nothing_inline_and_no_other_host(client):
    answer = client.get("/")
    policy = answer.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "<style" not in answer.text
    assert not re.search(r'\son\w+=|style=|<script(?! type="module" src="static/)', answer.text)
    assert "http" not in answer.text


def test_no_script_of_the_page_parses_html_or_names_a_host():
    for name, asset in page_files.load_assets("1")[1].items():
        text = asset.body.decode()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
        hosts = [result for result in re.findall(r"https?://[^\"' ]+", text) if name != "icon.svg"]
        assert hosts in ([], ["http://www.w3.org/2000/svg"])


def test_what_requests_the_page_is_answered_by_reading_alone(client):
    for path in ("/", "/static/page.js", "/api/v1/overview", "/api/v1/trends"):
        assert client.post(path).status_code == httpx.codes.METHOD_NOT_ALLOWED


def test_the_address_of_the_boards_is_in_the_overview():
    for address in (None, "https://grafana.example.com"):
        body = overview.encode_overview(EMPTY_SNAPSHOT, version="1", alive=True, boards_url=address)
        assert json.loads(body)["boards_url"] == address
