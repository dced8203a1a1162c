"""Verbs that answer from the history tables without Spark: `as-of`, `timeline`, `report`.

In: a moment or a window, and names. Out: a table or JSON. Rule: no JVM (a contract holds it).
"""
