"""Which remedies of Connect's own are recommended."""

from __future__ import annotations

import pytest

from offsetwatch.remedy.locate import recommendations
from offsetwatch.remedy.model.policy import SinkProfile


@pytest.mark.parametrize(
    ("version", "remedy"),
    [
        ((3, 6, 2), recommendations.NOT_TOLERATE_AT_SOURCE),
        ((3, 7), recommendations.TOLERATE_AT_SOURCE),
        ((3, 7, 0), recommendations.TOLERATE_AT_SOURCE),
        ((4, 0, 0), recommendations.TOLERATE_AT_SOURCE),
        (None, recommendations.NOT_TOLERATE_AT_SOURCE),
    ],
)
def test_a_source_may_tolerate_errors_where_it_drops_the_bad_record_and_no_other(
    version: tuple[int, ...] | None, remedy: str
) -> None:
    assert recommendations.recommend_for_size(version) == (recommendations.LARGER_REQUESTS, remedy)


@pytest.mark.parametrize(
    ("stage", "remedies"),
    [
        (
            "put",
            (
                recommendations.ERRANT_RECORDS,
                recommendations.ONE_AT_A_TIME,
                recommendations.DECLARE_SAFE,
            ),
        ),
        ("transform", (recommendations.DEAD_LETTERS, recommendations.SHOW_RECORDS)),
        (None, (recommendations.DEAD_LETTERS, recommendations.SHOW_RECORDS)),
    ],
)
def test_what_put_throws_only_the_sink_itself_can_put_aside(
    stage: str | None, remedies: tuple[str, ...]
) -> None:
    assert recommendations.recommend_for_sink(stage) == remedies


@pytest.mark.parametrize(
    ("class_name", "profile", "remedies"),
    [
        (
            "io.confluent.connect.jdbc.JdbcSinkConnector",
            SinkProfile.SAFE,
            (recommendations.REPORTED_RECORDS, recommendations.ONE_AT_A_TIME),
        ),
        (
            "io.aiven.connect.jdbc.JdbcSinkConnector",
            SinkProfile.SAFE,
            (recommendations.ONE_AT_A_TIME,),
        ),
        (
            "io.debezium.connector.jdbc.JdbcSinkConnector",
            SinkProfile.UNKNOWN,
            (recommendations.ONE_AT_A_TIME, recommendations.DECLARE_SAFE),
        ),
        (
            "io.confluent.connect.s3.S3SinkConnector",
            SinkProfile.UNSAFE,
            (recommendations.REPORTED_RECORDS,),
        ),
        ("com.example.GcsSinkConnector", SinkProfile.UNSAFE, (recommendations.ERRANT_RECORDS,)),
    ],
)
def test_a_sink_that_is_known_gets_its_own_settings_and_none_that_lead_to_a_refusal(
    class_name: str, profile: SinkProfile, remedies: tuple[str, ...]
) -> None:
    found = recommendations.recommend_for_sink("put", class_name, profile)
    assert found == remedies


def test_settings_of_sinks_are_sentences_that_name_a_setting() -> None:
    for said in recommendations.SINK_SETTINGS.values():
        assert said == "" or ("=" in said and said.endswith("."))
