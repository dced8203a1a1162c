"""Failover costs now: records that a group reads again or misses if it moves to a flow's target.

In: group offsets on both sides, checkpoints and offset syncs. Out: a cost in records, or the reason
why it is not known.
"""
