"""A quiet day raises nothing; and the same estate, once something is wrong, says so."""

from __future__ import annotations

import pytest

from offsetwatch.model.findings import Verdict
from tests.scenarios.simulation import DAY, WRONG, Estate, healthy

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("seed", "probing", "tick_s"),
    [
        pytest.param(1, True, 30.0, id="polled-every-30-s"),
        pytest.param(1, True, 10.0, id="probed", marks=pytest.mark.full),
        pytest.param(2, False, 10.0, id="not-probed", marks=pytest.mark.full),
    ],
)
def test_a_day_of_healthy_mixed_load_raises_no_verdict_that_needs_attention(seed, probing, tick_s):
    estate = Estate(*healthy(), seed=seed, probing=probing, tick_s=tick_s)
    observed: dict[tuple, Verdict] = {}
    last = None
    for snapshot in estate.run(DAY):
        if snapshot.judgements is last:
            continue
        last = snapshot.judgements
        for judgement in last:
            if judgement.verdict in WRONG:
                key = (judgement.connector, judgement.subject, judgement.verdict)
                observed.setdefault(key, (snapshot.at, judgement.reason, judgement.evidence))
        assert not snapshot.findings
    assert not observed
    ends = {item.connector: item.verdict for item in last if item.scope == "connector"}
    assert ends["mm2"] is Verdict.OK
    assert ends["heartbeat"] is Verdict.UNKNOWN
    assert ends["lake"] is Verdict.OK
