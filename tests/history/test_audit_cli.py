"""`history audit`: which flow is meant, what is printed, what the exit code counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.errors import ConfigError
from offsetwatch.history.audit.differences import AuditFinding, MirrorDifferenceKind, Span
from offsetwatch.history.audit.scope import PartitionCoverage, Slice
from offsetwatch.model.topology import MirrorFlow, TopicPartition, Topology

ORDERS = TopicPartition("orders", 0)


def flow(source: str, connector: str, location: str = "payments") -> MirrorFlow:
    return MirrorFlow(location, connector, source, "east", source, None, downstream="east")


TOPOLOGY = Topology((), (flow("west", "mm2-w"), flow("south", "mm2-s"), flow("south", "x", "z")))


def build_options(**more: Any) -> Any:
    from offsetwatch.cli.history.audit import AuditOptions

    inputs = {
        "config_path": Path("offsetwatch.yaml"),
        "flow": None,
        "connect_cluster": None,
        "topics": (),
        "copy_topics": (),
        "from_offset": None,
        "to_offset": None,
        "since": None,
        "until": None,
        "sample": 1.0,
        "seed": 0,
        "accept_transforms": False,
        "headers": True,
        "report": None,
        "output_format": OutputFormat.TABLE,
        "timeout_s": 1.0,
        **more,
    }
    return AuditOptions(**inputs)


def audited(*findings: AuditFinding, pending: int = 0) -> Any:
    from offsetwatch.history.audit.job import PartitionAudit

    of = Slice(ORDERS, "west.orders", 0, 100, 0, 100, (0, 100 - pending))
    reach = PartitionCoverage(
        ORDERS, "west.orders", requested=100, deleted=3, pending=pending, slices=(of,)
    )
    return PartitionAudit(reach, 100, 98, 4, findings)


LOST = AuditFinding(MirrorDifferenceKind.LOST, 2, Span(5, 6), None)
SKIPPED = AuditFinding(
    MirrorDifferenceKind.LOST, 1, Span(9, 9), None, "skipped by plan 7", certain=True
)
DROPPED = AuditFinding(
    MirrorDifferenceKind.LOST, 1, Span(12, 12), None, "a filter, possibly (Drop)"
)


@pytest.mark.parametrize("name", ["west->east", "mm2-w"])
def test_a_flow_is_meant_by_its_aliases_or_its_connector(name: str) -> None:
    from offsetwatch.cli.history.audit import _find_flow

    assert _find_flow(TOPOLOGY, build_options(flow=name)).connector == "mm2-w"
    assert (
        _find_flow(TOPOLOGY, build_options(flow="south->east", connect_cluster="z")).connector
        == "x"
    )


@pytest.mark.parametrize(
    ("more", "answer"),
    [
        pytest.param({"flow": "north->east"}, "there is no such flow", id="unknown"),
        pytest.param({"flow": "south->east"}, "several flows", id="two"),
        pytest.param({}, "several flows", id="none named"),
    ],
)
def test_a_flow_that_is_not_clear_is_refused_with_those_there_are(
    more: dict[str, Any], answer: str
) -> None:
    from offsetwatch.cli.history.audit import _find_flow

    with pytest.raises(ConfigError, match=answer) as raised:
        _find_flow(TOPOLOGY, build_options(**more))
    assert "west->east (mm2-w)" in str(raised.value)


def test_bounds_by_offset_and_by_time_do_not_go_together() -> None:
    from offsetwatch.cli.history.audit import _parse_bounds

    with pytest.raises(ConfigError, match="do not go with"):
        _parse_bounds(build_options(from_offset=1, until="1h ago"))
    assert _parse_bounds(build_options(since="2026-01-01T00:00:00Z")).since == 1767225600.0


@pytest.mark.parametrize(
    ("findings", "accept", "unexplained"),
    [
        pytest.param((), False, 0, id="clean"),
        pytest.param((SKIPPED,), False, 0, id="explained"),
        pytest.param((LOST, SKIPPED), False, 1, id="one is not"),
        pytest.param((DROPPED,), False, 1, id="perhaps"),
        pytest.param((DROPPED,), True, 0, id="perhaps, accepted"),
        pytest.param((LOST,), True, 1, id="accepted without any explanation"),
    ],
)
def test_only_what_nothing_explains_counts(
    findings: tuple[AuditFinding, ...], accept: bool, unexplained: int
) -> None:
    from offsetwatch.cli.history.audit import _build_document
    from offsetwatch.history.audit.scope import AuditBounds

    document = _build_document(
        flow("west", "mm2"),
        [audited(*findings)],
        AuditBounds(),
        build_options(accept_transforms=accept),
    )
    assert document["unexplained"] == unexplained


def test_the_tables_say_what_was_found_where_and_what_was_inspected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from offsetwatch.cli.history.audit import _print_tables
    from offsetwatch.history.audit.scope import AuditBounds

    _print_tables(flow("west", "mm2"), [audited(LOST, SKIPPED, pending=50)], AuditBounds(share=0.5))
    out = capsys.readouterr().out
    assert "orders-0" in out
    assert "5-6" in out
    assert "skipped by plan 7" in out
    assert "2 findings in what was inspected, 100.0% of it" in out


def test_a_report_is_the_json_that_is_printed(tmp_path: Path) -> None:
    from offsetwatch.cli.history.audit import _build_document, _write_report
    from offsetwatch.history.audit.scope import AuditBounds

    document = _build_document(flow("west", "mm2"), [audited(LOST)], AuditBounds(), build_options())
    _write_report(tmp_path / "audit.json", document)
    (partition,) = json.loads((tmp_path / "audit.json").read_text())["partitions"]
    assert partition["findings"] == [
        {
            "kind": "lost",
            "records": 2,
            "up": {"first": 5, "last": 6},
            "down": None,
            "explained": "",
            "certain": False,
        }
    ]
    with pytest.raises(ConfigError, match="--report"):
        _write_report(tmp_path / "no" / "audit.json", document)


def test_a_copy_is_named_by_a_pair() -> None:
    from offsetwatch.cli.history.audit import _parse_copy_topics

    assert _parse_copy_topics(("orders=copy-orders", "a=b")) == {"orders": "copy-orders", "a": "b"}
    for wrong in ("orders", "orders=", "=copy"):
        with pytest.raises(ConfigError, match="--copy-topic"):
            _parse_copy_topics((wrong,))
