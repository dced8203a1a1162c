"""What a commit changed: Arrow's short cut says what the edge's rule says."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.decode.dialects import read_position
from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.history.tables.commit_changes import change_of, compute_changes
from offsetwatch.model.offsets import SourceOffset

FILES = "org.apache.kafka.connect.file.FileStreamSourceConnector"
MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
STATED = st.tuples(
    st.sampled_from(["file_stream", "mirror_source", "jdbc", "debezium", "generic"]),
    st.sampled_from(
        [
            None,
            "null",
            "{}",
            *(f'{{"{name}":{n}}}' for name in ("position", "offset") for n in (1, 2, 2**64)),
            *(f'{{"lsn":{n},"lsn_commit":{n}}}' for n in (1, 2)),
            *(f'{{"incrementing":{n}}}' for n in (1, 2)),
            '{"incrementing":1,"x":1}',
        ]
    ),
)


@given(
    st.lists(st.tuples(STATED, STATED, st.booleans()), max_size=8),
    st.sampled_from([None, FILES, MIRROR, "io.debezium.connector.postgresql.PostgresConnector"]),
)
def test_reported_by_arrow_or_one_by_one_a_change_is_the_same(
    cases: list[tuple[tuple[str, str | None], tuple[str, str | None], bool]],
    class_name: str | None,
) -> None:
    def pos(dialect: str, text: str | None) -> int | None:
        offset = None if text is None else decode_value(text.encode())
        return read_position(dialect, offset if isinstance(offset, SourceOffset) else None)

    rows = [
        {
            "dialect": dialect,
            "source_offset": now,
            "tombstone": False,
            "error": None,
            "pos": pos(dialect, now),
            "before": True if there else None,
            "before_offset": before if there else None,
            "before_pos": pos(dialect, before) if there else None,
            "class_name": class_name,
        }
        for (dialect, now), (_, before), there in cases
    ]
    schema = pa.schema(
        [
            *((name, pa.string()) for name in ("dialect", "source_offset", "error")),
            *((name, pa.bool_()) for name in ("tombstone", "before")),
            *((name, pa.string()) for name in ("before_offset", "class_name")),
            *((name, pa.int64()) for name in ("pos", "before_pos")),
        ]
    )
    (batch,) = compute_changes([pa.RecordBatch.from_pylist(rows, schema=schema)])
    assert batch["change"].to_pylist() == [
        change_of(
            row["dialect"],
            row["source_offset"],
            row["tombstone"],
            row["error"],
            row["before"],
            row["before_offset"],
            row["class_name"],
        )
        for row in rows
    ]


@pytest.mark.parametrize(
    ("now", "before", "change"),
    [
        ('{"position":2}', '{"position":1}', "ahead"),
        ('{"position":1}', '{"position":2}', "behind"),
        ('{"position":1}', '{"position":1}', "same"),
        ('{"position":1}', None, "unordered"),
        ("null", '{"position":1}', "unordered"),
        ("null", None, "same"),
    ],
)
def test_a_change_is_named_as_the_connector_orders_its_offsets(
    now: str, before: str | None, change: str
) -> None:
    assert change_of("file_stream", now, False, None, True, before, FILES) == change


@pytest.mark.parametrize("class_name", [None, "", "org.example.CameraSource"])
def test_a_shape_alone_reports_no_direction(class_name: str | None) -> None:
    answer = change_of(
        "file_stream", '{"position":1}', False, None, True, '{"position":2}', class_name
    )
    assert answer == "unordered"


def test_what_has_no_predecessor_is_the_first_and_what_is_no_offset_is_none_of_these() -> None:
    assert change_of("file_stream", '{"position":1}', False, None, None, None) == "first"
    assert change_of("file_stream", None, True, None, True, '{"position":1}') == "reset"
    assert change_of("file_stream", None, False, "value_not_json", True, "{}") is None
