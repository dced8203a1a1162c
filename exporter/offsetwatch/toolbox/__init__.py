"""Offset work that a person requests: list, export, import, diff, alter, reset, rewind, create.

In: an offset store and a request. Out: a plan for remedy's runner, with what it costs in records.
Nothing here changes anything by itself.
"""
