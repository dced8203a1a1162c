"""Verbs of the history tables: `history run`, `maintain`, `package`, `audit`, and the queries.

In: the configuration and the tables' folder. Out: one call to offsetwatch.history each. Spark is
imported only once a verb needs it.
"""
