"""Sets of GTIDs against plain sets of (server and tag, number), and against their order."""

from __future__ import annotations

import json
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.decode.dialects import compare_offsets
from offsetwatch.decode.offset_order import parse_gtids
from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.model.offsets import Order

SERVERS = ("3e11fa47-71ca-11e1-9e33-c80aa9429562", "4f11fa47-71ca-11e1-9e33-c80aa9429562")
MEMBERS = st.sets(
    st.tuples(st.sampled_from(SERVERS), st.sampled_from(["", "batch"]), st.integers(1, 12)),
    max_size=20,
)
DOMAINS = st.dictionaries(st.integers(0, 3), st.integers(1, 9), max_size=4)


def write(members: set[tuple[str, str, int]]) -> str:
    """Write a set as a server of MySQL does: runs of a server, then those of its tags."""
    texts = []
    for server, of_server in groupby(sorted(members), key=lambda member: member[0]):
        text = server
        for tag, tagged in groupby(of_server, key=lambda member: member[1]):
            text += f":{tag}" if tag else ""
            runs: list[list[int]] = []
            for _, _, number in tagged:
                if runs and runs[-1][1] == number - 1:
                    runs[-1][1] = number
                else:
                    runs.append([number, number])
            for first, last in runs:
                text += f":{first}" if first == last else f":{first}-{last}"
        texts.append(text)
    return ",\n".join(texts)


def compare(before: str, after: str) -> Order:
    offsets = [
        decode_value(json.dumps({"file": "b.1", "pos": 4, "gtids": text}).encode())
        for text in (before, after)
    ]
    return compare_offsets("debezium_mysql", *offsets)


@given(MEMBERS, MEMBERS)
def test_sets_of_mysql_are_counted_and_ordered_as_sets(one, two):
    first, second = (parse_gtids(write(members), mariadb=False) for members in (one, two))
    assert first.count() == len(one)
    assert first.count_missing(second) == len(one - two)
    assert first.includes(second) == (two <= one)
    if one and two and one != two:
        order = compare(write(one), write(two))
        same_sources = {each[:2] for each in one} == {each[:2] for each in two}
        expected = Order.AHEAD if one < two else Order.UNORDERED
        if two < one and same_sources:
            expected = Order.BEHIND
        assert order is expected


@given(DOMAINS, DOMAINS, st.integers(1, 4))
def test_domains_of_mariadb_are_ordered_each_for_itself(one, two, server):
    texts = [",".join(f"{d}-{server}-{n}" for d, n in each.items()) for each in (one, two)]
    first, second = (parse_gtids(text, mariadb=True) for text in texts)
    missing = sum(max(0, number - two.get(domain, 0)) for domain, number in one.items())
    assert first.count_missing(second) == missing
    if one and two and one != two:
        ahead = all(two.get(domain, 0) >= number for domain, number in one.items())
        back = one.keys() == two.keys() and all(one[domain] >= two[domain] for domain in two)
        expected = Order.AHEAD if ahead else Order.BEHIND if back else Order.UNORDERED
        assert compare(*texts) is expected
