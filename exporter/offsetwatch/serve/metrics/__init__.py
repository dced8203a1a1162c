"""Snapshot -> Prometheus text and OpenMetrics.

In: one snapshot. Out: bytes of a scrape, made once for all who ask at the same time. `catalog` is
the one list of names, types, help texts and labels.
"""
