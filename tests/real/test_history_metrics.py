"""What the pipeline says of itself reaches Prometheus, though it is another process."""

from __future__ import annotations

from collections import Counter

import pytest

from exporter.history import read
from exporter.history.status import path_of
from lab.product import Product
from tests.real.seen import becomes, eventually, samples, scraped, total

pytestmark = [pytest.mark.real, pytest.mark.spark]

TABLE_AT = "history_table_timestamp_seconds"


def test_a_run_shows_in_the_daemons_metrics_and_its_absence_too(product: Product) -> None:
    product.run_pipeline()
    stored: Counter[str] = Counter()
    for topic in read.bronze_summary(product.history):
        stored[topic.at.kafka] += topic.rows - topic.undecodable
    assert stored["east"] > 0
    for kafka in ("east", "west"):
        becomes(product, stored[kafka], "history_records_total", kafka=kafka, record="decoded")
        becomes(product, 0, "history_behind_records", kafka=kafka)
        becomes(product, 0, "history_gaps", kafka=kafka)
    # Gold comes last, and the daemon may have looked at the run while it was under way.
    eventually(product, "gold", lambda: samples(product, TABLE_AT, table="gold"))
    seen = product.metrics()
    layers = {dict(labels)["table"]: at for labels, at in scraped(seen, TABLE_AT).items()}
    (at,) = scraped(seen, "history_last_batch_timestamp_seconds").values()
    assert layers == dict.fromkeys(("bronze", "silver", "gold"), at)
    assert samples(product, "history_errors_total") == {}

    path_of(product.history).write_text("{")
    becomes(product, 1, "history_errors_total", reason="status_unreadable")
    becomes(product, None, "history_last_batch_timestamp_seconds")
    becomes(product, None, "history_records_total")
    product.run_pipeline()  # in which nothing fails for want of the old file
    eventually(
        product,
        "the counters where they were",
        lambda: (total(product, "history_records_total") or 0) >= stored.total(),
    )
    becomes(product, 1, "history_errors_total")
