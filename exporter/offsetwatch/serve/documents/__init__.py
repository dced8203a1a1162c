"""Snapshot -> documents of the read API, of `status`, of `explain` and of the status page.

In: one snapshot. Out: msgspec types with RFC 3339 times, from which the OpenAPI document is made.
"""
