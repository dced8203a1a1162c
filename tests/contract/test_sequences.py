"""What the drawn sequences and odd bodies do to the model itself: that it is the same each time,
and that all there is to be tried is tried.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.contract import malformed_bodies, sequences
from tests.contract.clusters import ModelCluster

SEEDS = 60


@pytest.mark.parametrize("seed", range(0, SEEDS, 10))
def test_a_sequence_is_the_same_on_a_second_model(seed):
    cluster = ModelCluster()
    for number in range(seed, seed + 10):
        sequences.play(cluster, number, f"drawn-{number}", "4.3.1")


def test_the_sequences_do_everything_there_is_to_do_and_see_every_kind_of_answer():
    done, answered, kinds = Counter(), Counter(), Counter()
    for seed in range(SEEDS):
        kinds[sequences.drawn(seed)[0]] += 1
        for rows in sequences.expected(seed, "drawn", "4.3.1"):
            done[rows.op.what] += 1
            answered[rows.status] += 1
    assert set(kinds) == {"source", "sink", "mirror"}
    assert set(sequences.OPS) <= set(done)
    assert set(answered) >= {0, 200, 201, 202, 204, 400, 404, 409, 500}


@pytest.mark.parametrize("kind", ["source", "sink", "mirror"])
def test_no_odd_body_is_anybody_elses_fault(kind):
    for reports in malformed_bodies.send_bodies(ModelCluster(), kind, "odd"):
        assert reports.status in {200, 400, 500}, reports
        assert reports.said, reports
