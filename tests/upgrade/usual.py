"""The document of what is usual, as the code that it is run with learns and writes it. Without
Spark: what is learned of one connector is worked out in Python. Run by make.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from offsetwatch.history.baselines.model import (
    compute_commit_intervals,
    compute_lag_baseline,
    fit_baseline,
)
from offsetwatch.model.history_documents import (
    Baseline,
    Baselines,
    InsufficientBaseline,
    decode_baselines,
    encode_baselines,
)
from tests.history.months import DAY_S, HOUR_S, MONDAY, WEEK_S

WEEKS = 6
UNTIL = MONDAY + WEEKS * WEEK_S


def learn() -> tuple[bytes, dict[str, Any]]:
    """By day and seldom, every hour, a flow with its lag, and one of which too little is known."""
    hours = np.arange(MONDAY, UNTIL, HOUR_S)
    office = hours[((hours - MONDAY) // HOUR_S % 24 >= 8) & ((hours - MONDAY) % WEEK_S < 5 * DAY_S)]
    looks = np.arange(MONDAY, UNTIL, 1800.0)
    backlog = 100.0 + 50.0 * ((looks - MONDAY) // HOUR_S % 24)
    found = {
        "office": fit_baseline("lab", "office", office, UNTIL),
        "hourly": fit_baseline("lab", "hourly", hours, UNTIL),
        "new": fit_baseline("lab", "new", hours[-100:], UNTIL),
    }
    flow = fit_baseline("lab", "mirror", hours, UNTIL)
    assert isinstance(flow, Baseline)
    extra = {
        "commit_s": compute_commit_intervals(hours),
        "lag": compute_lag_baseline(looks, backlog, UNTIL),
    }
    found["mirror"] = Baseline(
        **{name: getattr(flow, name) for name in flow.__struct_fields__} | extra
    )
    document = encode_baselines(
        Baselines(
            made_at=UNTIL + 60.0,
            until=UNTIL,
            connectors=tuple(at for at in found.values() if isinstance(at, Baseline)),
            insufficient=tuple(at for at in found.values() if isinstance(at, InsufficientBaseline)),
        )
    )
    return document, told(document)


def told(document: bytes) -> dict[str, Any]:
    """What this code says by it."""
    found = decode_baselines(document)
    noon, night = UNTIL + 12 * HOUR_S, UNTIL + 26 * HOUR_S
    return {
        "until": found.until,
        "insufficient": {at.connector: [at.had, at.wanted] for at in found.insufficient},
        "connectors": {
            at.connector: {
                "three hours by day": at.out_of_the_ordinary(noon, noon + 3 * HOUR_S),
                "three hours by night": at.out_of_the_ordinary(night, night + 3 * HOUR_S),
                "interval_s": at.interval_s(noon, 0),
                "lag_records": at.lag_records(noon, 1),
                "lag_limit": at.lag_limit(noon),
            }
            for at in found.connectors
        },
    }
