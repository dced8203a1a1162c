"""A quiet day raises nothing; and the same estate, once something is wrong, says so."""

from __future__ import annotations

import pytest

from offsetwatch.model.findings import Verdict
from tests.scenarios.simulation import DAY, WRONG, Estate, healthy

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("seed", "probing"), [(1, True), (2, False)], ids=["probed", "not-probed"])
def test_a_day_of_healthy_mixed_load_raises_no_verdict_that_somebody_must_hear(seed, probing):
    estate = Estate(*healthy(), seed=seed, probing=probing)
    seen: dict[tuple, Verdict] = {}
    last = None
    for snapshot in estate.run(DAY):
        if snapshot.judgements is last:
            continue
        last = snapshot.judgements
        for at in last:
            if at.verdict in WRONG:
                key = (at.connector, at.subject, at.verdict)
                seen.setdefault(key, (snapshot.at, at.reason, at.evidence))
        assert not snapshot.findings
    assert not seen
    ends = {at.connector: at.verdict for at in last if at.scope == "connector"}
    assert ends["mm2"] is Verdict.OK
    assert ends["heartbeat"] is Verdict.UNKNOWN
    assert ends["lake"] is Verdict.OK
