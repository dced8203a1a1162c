"""Upstream records that a flow never copied: how many, which, and why.

In: log starts, positions and sync gaps of each inspection. Out: exact ranges, accounted up to a
position that survives a restart. Nothing is counted that is only probable.
"""
