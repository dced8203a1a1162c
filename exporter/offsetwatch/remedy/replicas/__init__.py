"""Journal that several replicas share: a topic, a copy of it in each, and an elected leader.

In: the journal's topic. Out: an identical file in each replica. Only the leader acts, and it stops
before its lease can have ended.
"""
