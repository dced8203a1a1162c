"""What earlier versions have learned and published as baselines."""

from __future__ import annotations

import json

import pytest

from offsetwatch.errors import HistoryError
from offsetwatch.history.tables import pipeline_status
from tests.upgrade import baselines as usual
from tests.upgrade import opened

ALL = opened.milestones("baselines")


@pytest.fixture(params=ALL)
def milestone(request: pytest.FixtureRequest) -> str:
    return request.param


def document(milestone: str) -> bytes:
    return (opened.MADE / milestone / "baselines" / "baselines.json").read_bytes()


def test_what_was_usual_is_read_as_it_was_meant(milestone):
    assert usual.describe(document(milestone)) == opened.expected(milestone, "baselines")


def test_an_older_document_is_taken_up_where_it_was_published(milestone, tmp_path):
    path = pipeline_status.find_baselines_path(tmp_path)
    path.parent.mkdir()
    path.write_bytes(document(milestone))
    baselines = pipeline_status.read_baselines(tmp_path)
    assert baselines is not None
    assert [connector.connector for connector in baselines.connectors] == [
        "office",
        "hourly",
        "mirror",
    ]


def test_a_document_of_a_newer_version_is_refused_with_both_versions_and_left(tmp_path):
    newer = json.loads(document(ALL[-1]))
    newer["version"] += 1
    path = pipeline_status.find_baselines_path(tmp_path)
    path.parent.mkdir()
    path.write_text(json.dumps(newer))
    before = path.read_bytes()
    with pytest.raises(HistoryError, match=r"version 2; this one reads 1"):
        pipeline_status.read_baselines(tmp_path)
    assert path.read_bytes() == before
