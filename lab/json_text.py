"""JSON in one spelling, so that two readings of one value can be compared as text."""

import json


def text(value: object) -> str:
    """Sorted keys and no spaces, as the exporter writes source partitions and offsets."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
