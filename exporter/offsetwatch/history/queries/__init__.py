"""Answers from the tables: source offsets as of a moment, and the timeline of a connector.

In: a moment or a window. Out: rows, or a refusal with its reason where the tables do not know.
No Spark.
"""
