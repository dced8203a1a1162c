"""What a failover would meet, for people: `status` and `explain`."""

from __future__ import annotations

from offsetwatch import documents
from offsetwatch.cli.inspect import explain, status
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.serve.documents import explain as serve_explain
from offsetwatch.serve.documents.explain import build_explained_connector
from offsetwatch.serve.documents.status import encode_status
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace
from tests.unit.serve.worlds import GROUP
from tests.unit.state.test_failover import (
    CHECKPOINTS,
    answered,
    checkpoint,
    checkpointed,
    readable,
)
from tests.unit.state.worlds import World, mirror, source

CHECKPOINTER = source(
    "ckpt",
    kind=ConnectorKind.MIRROR,
    class_name="org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
)


def moving() -> World:
    world = readable(mirror(), CHECKPOINTER, source("files"))
    world.synced(0)
    world.synced(2999)
    checkpointed(world, checkpoint(1))
    answered(world)
    return world


def explained(world: World, name: str) -> dict:
    snapshot = world.snapshot()
    return build_explained_connector(snapshot, serve_explain.find_connector(snapshot, name, None))


def test_the_flows_connector_and_its_checkpoint_connector_report_its_groups():
    world = moving()
    for name in ("mm2", "ckpt"):
        (row,) = explained(world, name)["failover"]
        assert (row["flow"], row["group"], row["reread_records"]) == ("west->east", "billing", 2699)
    assert explained(world, "files")["failover"] == []


def test_what_is_said_of_groups_rests_on_checkpoints_and_on_the_groups():
    results = [(view["input"], view["kind"]) for view in explained(moving(), "mm2")["inputs"]]
    assert results[-2:] == [(str(CHECKPOINTS), "tail"), ("lab/west->east", "groups")]


def test_a_flow_without_checkpoints_rests_on_no_groups():
    world = readable(mirror())
    kinds = [view["kind"] for view in explained(world, "mm2")["inputs"]]
    assert "groups" not in kinds


def test_explain_prints_a_table_of_them(capsys):
    explain._print_tables(explained(moving(), "ckpt"))
    printed = capsys.readouterr().out
    assert "Failover" in printed
    assert "2699" in printed


def test_status_prints_a_row_for_each_and_a_dash_for_what_is_not_known(capsys):
    unknown = replace(GROUP, group="reports", best=None, reread=None, skip=None)
    flows = moving().snapshot().topology
    snapshot = replace(EMPTY_SNAPSHOT, groups=(GROUP, unknown), topology=flows)
    status._print_tables(documents.decode(encode_status(snapshot), status.StatusDocument), "none")
    lines = capsys.readouterr().out.splitlines()
    (billing,) = [line.split() for line in lines if "billing" in line]
    (reports,) = [line.split() for line in lines if "reports" in line]
    assert billing[-3:] == ["checkpoint", "2699", "0"]
    assert reports[-3:] == ["checkpoint", "-", "-"]
