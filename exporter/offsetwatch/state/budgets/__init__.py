"""Bounds of what is kept and shown: keys of internal topics, series of connectors and in all.

In: what there is. Out: what fits, and counts of what was left out. Every bound counts what it cut.
"""
