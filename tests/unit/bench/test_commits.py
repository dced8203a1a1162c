"""The history benches measure what real connectors write, and each run the same."""

from collections import Counter

from bench.commits import KINDS, commits, keys
from offsetwatch.decode.dialects import read_event_time, refine_dialect
from offsetwatch.decode.source_offsets import decode_key, decode_value

DIALECTS = {"mirror_source", "file_stream", "jdbc", "debezium_postgres"}


def test_commits_are_of_four_kinds_in_equal_parts_as_connect_writes_them():
    decoded = [(decode_key(key), decode_value(value.encode())) for key, value in commits(4000, 40)]
    kinds = Counter(refine_dialect(key.dialect, value).name for key, value in decoded)
    assert kinds.keys() == DIALECTS
    assert min(kinds.values()) > 4000 / KINDS * 0.9
    assert all(key.canonical for key, _ in decoded)
    timed = {
        key.dialect for key, value in decoded if read_event_time(key.dialect, value) is not None
    }
    assert timed == {"jdbc", "debezium"}


def test_every_source_has_a_key_of_its_own():
    assert len(set(keys(20_000))) == 20_000


def test_the_same_commits_come_each_time():
    assert list(commits(1000, 100)) == list(commits(1000, 100))
