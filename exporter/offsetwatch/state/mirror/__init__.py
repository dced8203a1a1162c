"""Replication flows of MirrorMaker 2: commits, offset syncs, log ends and record ages, joined.

In: records and answers of both clusters. Out: lag of each replicated partition. A position is fixed
before the log end is asked for, so lag can be late and never negative.
"""
