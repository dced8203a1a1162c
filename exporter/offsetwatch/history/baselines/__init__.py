"""Commit intervals and lag that are usual for a connector or flow, learned on Spark.

In: gold tables. Out: one document that the daemon reads and compares with. Nothing is judged here.
"""
