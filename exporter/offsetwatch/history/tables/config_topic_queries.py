"""Queries about config topics, which Connect keeps the configurations of connectors in.

They run through delta-rs, without a JVM. Times are Unix seconds.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from offsetwatch.history.tables import reader
from offsetwatch.history.tables.offsets_topic_queries import quote_text, quote_time
from offsetwatch.history.tables.schemas import BRONZE_RECORDS, CONFIGS


def build_connector_condition(connector: str) -> str:
    """Return SQL that selects observations of this connector. Their JSON is compact."""
    field = f'"connector":{msgspec.json.encode(connector).decode()}'
    return f"strpos(observation, {quote_text(field)}) > 0"


def find_class_name(base: Path, connect_cluster: str, connector: str, moment: float | None) -> str:
    """Return the class of a connector as of a time, or the newest for None; "" if not known.

    The config topic counts. Where it has nothing of it until then, a class that runs have found
    counts, unless it was another one before and that time may be of the other.
    """
    until = "" if moment is None else f"AND kts <= {quote_time(moment)}"
    query = f"""
        SELECT observation FROM records
        WHERE kind = '{CONFIGS}' AND connect_cluster = {quote_text(connect_cluster)}
              AND error IS NULL AND {build_connector_condition(connector)} {until}
        ORDER BY kts DESC, koffset DESC
        """  # noqa: S608 - quoted
    for row in reader.run_query(base, query, records=BRONZE_RECORDS).to_pylist():
        document = msgspec.json.decode(row["observation"])
        class_name: str | None = (document.get("settings") or {}).get("class_name")
        if document["connector"] == connector and class_name:
            return class_name
    for known in reader.read_classes(base):
        if (known.connect_cluster, known.connector) == (connect_cluster, connector):
            since = known.since
            reached = moment is None or since is None or since <= moment
            return known.class_name if reached else ""
    return ""
