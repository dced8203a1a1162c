"""A replication flow set back or on: which pairs, to which offsets, and at what cost in records.

In: a flow and a target. Out: one plan for all its partitions, with the topics that are deleted or
shared named.
"""
