"""What each consumer group would read again or miss if it moved to the target of a flow now.

In: group offsets on both sides, checkpoints and offset syncs. Out: a cost in records, or the reason
why it is not known.
"""
