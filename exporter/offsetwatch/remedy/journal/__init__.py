"""The journal: what was planned, intended, done and seen; append-only, synced before it counts.

In: records of the runner and of decisions. Out: the newest state of each plan, and backups of
offsets. A damaged journal is refused and never repaired in silence.
"""
