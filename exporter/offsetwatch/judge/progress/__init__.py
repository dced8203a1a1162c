"""Verdicts over time: whether each partition, connector and flow makes progress.

In: positions, log ends and states of a snapshot. Out: verdicts with the numbers that they rest on.
Time in which an input could not be read counts as neither progress nor stall.
"""
