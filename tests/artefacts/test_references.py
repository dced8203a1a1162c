"""The pages under docs/reference: made from the code, whole, true of a book whose inputs die."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

import offsetwatch.cli
from offsetwatch.cli import cli
from offsetwatch.config import load
from offsetwatch.model.connectors import DatabaseSettings
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    LOG_ENDS,
    FirstRecord,
    HeartbeatRecord,
    InputId,
    LogBounds,
    SinkOffset,
    SourceEndRead,
    build_source_end_input,
)
from offsetwatch.model.offsets import Heartbeat
from offsetwatch.model.source_ends import (
    ColumnEnd,
    ColumnQuery,
    MysqlEnd,
    PostgresqlEnd,
    ReplicationSlot,
    SourceKind,
    SqlEnd,
)
from offsetwatch.model.topology import TopicPartition
from offsetwatch.serve.metrics.catalog import CATALOG
from offsetwatch.serve.metrics.families import collect_families
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings
from offsetwatch.state.failover import build_groups_input
from offsetwatch.state.sources.source_ends import SourceSettings
from tests.unit.serve.worlds import BUILD, RELOADED
from tests.unit.state.test_failover import (
    CHECKPOINTS,
    FLOW,
    HEARTBEATS,
    answered,
    checkpoint,
    checkpointed,
    readable,
)
from tests.unit.state.worlds import FILE, OFFSETS, SYNCS, World, mirror, orders, sink, source
from tools.references import commands, configuration, metrics
from tools.references.__main__ import main, pages
from tools.references.metric_facts import FACTS, Need, of_all
from tools.references.settings import Setting, describe_settings

PAGES = Path(__file__).parents[2] / "docs" / "reference"
INPUTS = {
    Need.LISTING: InputId(CONNECT_REST, connect_cluster="lab"),
    Need.OFFSETS: InputId.of_tail(OFFSETS),
    Need.SYNCS: InputId.of_tail(SYNCS),
    Need.CHECKPOINTS: InputId.of_tail(CHECKPOINTS),
    Need.HEARTBEATS: InputId.of_tail(HEARTBEATS),
    Need.LOG_ENDS: InputId(LOG_ENDS, kafka="west"),
    Need.SINKS: InputId(GROUPS, connect_cluster="lab"),
    Need.FLOW_GROUPS: build_groups_input(FLOW),
    Need.SOURCE_END: build_source_end_input("pg"),
}
SOURCES = ("pg", "maria", "tables")
# These come of baselines, which no book reads by itself.
ELSEWHERE = {
    "offsetwatch_expected_advance_interval_seconds",
    "offsetwatch_expected_commit_interval_seconds",
    "offsetwatch_expected_lag_records",
}


# --- the files -----------------------------------------------------------------------------------


def test_the_committed_pages_are_what_the_code_makes():
    assert main(["--check"]) == 0, "run: make references"


def test_a_page_that_is_out_of_date_is_noticed_and_written(tmp_path, capsys):
    (tmp_path / "docs").mkdir()
    assert main(["--check"], tmp_path) == 1
    assert not any(tmp_path.rglob("*.md"))
    assert main([], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0
    assert {path.name for path in tmp_path.rglob("*.*") if path.is_file()} == {
        path.name for path in pages()
    }
    assert "metrics.md: out of date\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["metrics.md", "configuration.md", "cli.md"])
def test_a_link_of_a_page_leads_to_a_heading(name: str):
    text = (PAGES / name).read_text()
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }
    assert set(re.findall(r"\]\(#([^)]*)\)", text)) <= headings


# --- metrics -------------------------------------------------------------------------------------


def test_every_metric_is_in_one_group():
    listed = [spec for group in FACTS.values() for spec in group]
    assert sorted(listed, key=lambda metric_spec: metric_spec.name) == sorted(
        CATALOG, key=lambda metric_spec: metric_spec.name
    )


@pytest.mark.parametrize("spec", CATALOG, ids=lambda spec: spec.name)
def test_a_metric_is_used_or_the_page_says_what_it_is_for(spec):
    facts = of_all()[spec]
    assert metrics.uses().get(spec.name) or facts.purpose, f"say in metric_facts.py: {spec.name}"
    assert facts.needs or facts.besides
    assert all(text == "" or text.endswith(".") for text in (facts.purpose, facts.besides))
    assert metrics.unit(spec)


def test_a_metric_that_a_rule_or_a_panel_names_is_found_there():
    used = metrics.uses()
    assert "alert `OffsetwatchBlind`" in used["offsetwatch_input_up"]
    assert any("Inputs down" in where for where in used["offsetwatch_input_up"])


def list_families(world: World) -> set[str]:
    """The metrics that a scrape would show."""
    return {
        family.spec.name
        for family in collect_families(world.snapshot(), BUILD, RELOADED)
        if family.numbers
    }


def whole(*, by_topic: bool = False) -> World:
    """A source, a mirror that lags and comes closer to the log start, a sink; all inputs answer."""
    cluster = ConnectClusterSettings(name="lab", kafka="east", by_topic=by_topic)
    rows = source(
        "rows",
        class_name="io.confluent.connect.jdbc.JdbcSourceConnector",
        database=DatabaseSettings(mode="incrementing", incrementing_column="id"),
    )
    postgres = source(
        "wal",
        class_name="io.debezium.connector.postgresql.PostgresConnector",
        database=DatabaseSettings(slot="debezium"),
    )
    mariadb = source("binlog", class_name="io.debezium.connector.mariadb.MariaDbConnector")
    listed = (mirror(), source("files"), rows, postgres, mariadb, sink("out"))
    world = readable(*listed, sites=(cluster,))
    world.book.watch_sources(
        SourceSettings(name, kind, {"lab": {connector}.__contains__})
        for name, kind, connector in (
            ("pg", SourceKind.POSTGRESQL, "wal"),
            ("maria", SourceKind.MYSQL, "binlog"),
            ("tables", SourceKind.SQL, "rows"),
        )
    )
    world.tail(HeartbeatRecord(Heartbeat("west", "east", world.now)), topic=HEARTBEATS, whole=True)
    world.commit("files", FILE, {"position": 7})
    world.commit(
        "rows",
        {"protocol": "1", "table": "ledger"},
        {"incrementing": 5, "timestamp": 1_790_000_000_000, "timestamp_nanos": 0},
    )
    world.commit("mm2", orders(), {"offset": 2000})
    for start in range(0, 1500, 100):
        world.now += 30.0
        world.synced(2000)
        world.commit("mm2", orders(), {"offset": 2000})
        world.ends({TopicPartition("orders", 0): LogBounds(start, 3000, 3000)})
    world.probed(2001, FirstRecord(2001, at=world.now - 5.0, appended=False))
    checkpointed(world, checkpoint(1))
    answered(world)
    world.commit("wal", {"server": "shop"}, {"lsn": 400, "txId": 1})
    world.commit("binlog", {"server": "bin"}, {"file": "b.1", "pos": 5, "gtids": "0-1-7"})
    slot = ReplicationSlot("debezium", "shop", active=True, safe_wal_size=9000, sent=500)
    ends = {
        "pg": PostgresqlEnd(500, {"debezium": slot}),
        "maria": MysqlEnd(mariadb=True, server_id=1, gtids="0-1-9", file="b.1", position=9),
        "tables": SqlEnd({ColumnQuery("ledger", "id"): ColumnEnd(5)}),
    }
    world.see(*(SourceEndRead(name, end, world.now) for name, end in ends.items()))
    world.sinks(SinkOffset("out", "orders", 0, committed=9, log_end=9, log_start=0))
    refresh(world)
    return world


def refresh(world: World, without: Need | None = None) -> None:
    world.reads(*(input_id for need, input_id in INPUTS.items() if need != without))
    if without is not Need.SOURCE_END:
        world.reads(*map(build_source_end_input, SOURCES))


@pytest.mark.parametrize("need", Need, ids=lambda need: need.name.lower())
@pytest.mark.parametrize("by_topic", [False, True], ids=["by partition", "by topic"])
def test_with_an_input_go_the_metrics_that_the_page_says_and_no_others(need: Need, by_topic: bool):
    world = whole(by_topic=by_topic)
    before = list_families(world)
    world.now += 120.0
    refresh(world, without=need)
    gone = before - list_families(world)
    names = {spec.name for spec, facts in of_all().items() if need in facts.needs}
    assert gone == names & before


def test_every_metric_that_rests_on_an_input_was_inspected():
    output = list_families(whole()) | list_families(whole(by_topic=True))
    rests = {spec.name for spec, facts in of_all().items() if facts.needs}
    assert rests - output == ELSEWHERE


# --- configuration -------------------------------------------------------------------------------


def every(results: tuple[Setting, ...]) -> Iterator[Setting]:
    for setting in results:
        yield setting
        yield from every(setting.inner)


KEYS = tuple(every(describe_settings()))


@pytest.mark.parametrize("setting", KEYS, ids=lambda setting: setting.path)
def test_a_setting_has_a_meaning_and_an_example_that_says_something(setting: Setting):
    assert setting.meaning.endswith(".")
    assert setting.inner or configuration.example(setting) not in (None, [], {})


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (("connect", 0, "worker_logs"), "Connect.worker_logs"),
        (("connect", 0, "connectors", "include"), "Patterns.include"),
        (("connect", 0, "topics", "exclude"), "Patterns.exclude"),
        (("remedy", "skip_safe_sinks"), "RemedyConfig.skip_safe_sinks"),
    ],
    ids=lambda name: name if isinstance(name, str) else "",
)
def test_the_examples_beside_those_of_the_file_can_be_used(tmp_path, path, key):
    document = {
        "kafka": {"east": {"bootstrap": "broker-1:9092"}},
        "connect": [{"name": "lab", "kafka": "east", "url": "http://worker-1:8083"}],
        "remedy": {},
    }
    entry = document
    for step in path[:-1]:
        entry = entry[step] if isinstance(step, int) else entry.setdefault(step, {})
    entry[path[-1]] = configuration.EXAMPLES_BESIDE[key]
    file = tmp_path / "offsetwatch.yaml"
    file.write_text(yaml.safe_dump(document))
    load(file, {})


def test_no_example_is_retained_for_a_setting_that_is_gone():
    assert configuration.EXAMPLES_BESIDE.keys() <= {setting.key for setting in KEYS}


# --- command line --------------------------------------------------------------------------------


def verbs(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    for name, result in group.commands.items():
        if isinstance(result, click.Group):
            yield from verbs(result, f"{path} {name}")
        else:
            yield f"{path} {name}", result


@pytest.mark.parametrize(("name", "verb"), list(verbs(cli, "offsetwatch")), ids=str)
def test_a_verb_is_there_with_its_arguments_and_options(name: str, verb: click.Command):
    text = (PAGES / "cli.md").read_text().split(f"\n## {name}\n")[1].split("\n## ")[0]
    for parameter in verb.params:
        if isinstance(parameter, click.Option):
            assert all(f"{opt}" in text for opt in (*parameter.opts, *parameter.secondary_opts))
            assert (parameter.help or "") != "", parameter.opts
        else:
            assert f"`{parameter.human_readable_name.upper()}`" in text


def test_the_exit_codes_are_those_of_the_command_line():
    match = re.search(r"0 ok, .*", (offsetwatch.cli.__doc__ or "").replace("\n", " "))
    assert match is not None
    numbers = {number for number, _ in commands.EXIT_CODES}
    assert {int(item) for item in re.findall(r"(?:^|, )(\d+) ", match.group())} == numbers
    named = ("USAGE", "DENIED", "UNAUTHORISED", "UNREACHABLE", "BUG")
    assert {getattr(offsetwatch.cli, name) for name in named} <= numbers
