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
    service = hours[
        ((hours - MONDAY) // HOUR_S % 24 >= 8) & ((hours - MONDAY) % WEEK_S < 5 * DAY_S)
    ]
    polls = np.arange(MONDAY, UNTIL, 1800.0)
    backlog = 100.0 + 50.0 * ((polls - MONDAY) // HOUR_S % 24)
    results = {
        "office": fit_baseline("lab", "office", service, UNTIL),
        "hourly": fit_baseline("lab", "hourly", hours, UNTIL),
        "new": fit_baseline("lab", "new", hours[-100:], UNTIL),
    }
    flow = fit_baseline("lab", "mirror", hours, UNTIL)
    assert isinstance(flow, Baseline)
    extra = {
        "commit_s": compute_commit_intervals(hours),
        "lag": compute_lag_baseline(polls, backlog, UNTIL),
    }
    results["mirror"] = Baseline(
        **{name: getattr(flow, name) for name in flow.__struct_fields__} | extra
    )
    document = encode_baselines(
        Baselines(
            made_at=UNTIL + 60.0,
            until=UNTIL,
            connectors=tuple(item for item in results.values() if isinstance(item, Baseline)),
            insufficient=tuple(
                item for item in results.values() if isinstance(item, InsufficientBaseline)
            ),
        )
    )
    return document, describe(document)


def describe(document: bytes) -> dict[str, Any]:
    """What this code says by it."""
    baselines = decode_baselines(document)
    noon, night = UNTIL + 12 * HOUR_S, UNTIL + 26 * HOUR_S
    return {
        "until": baselines.until,
        "insufficient": {
            item.connector: [item.had, item.required] for item in baselines.insufficient
        },
        "connectors": {
            connector.connector: {
                "three hours by day": connector.out_of_the_ordinary(noon, noon + 3 * HOUR_S),
                "three hours by night": connector.out_of_the_ordinary(night, night + 3 * HOUR_S),
                "interval_s": connector.interval_s(noon, 0),
                "lag_records": connector.lag_records(noon, 1),
                "lag_limit": connector.lag_limit(noon),
            }
            for connector in baselines.connectors
        },
    }
