"""Verbs that only read: `status`, `explain`, `doctor`, `discover`, `decode`.

In: a daemon's documents, or an own inspection of the clusters. Out: tables, JSON or YAML, and an
exit code by what was found. Nothing here changes anything.
"""
