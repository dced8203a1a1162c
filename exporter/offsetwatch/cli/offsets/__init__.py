"""Verbs of offsets and connectors: list, export, diff, import, alter, reset, rewind, and lifecycle.

In: options that say where offsets are and what to change. Out: a plan of the toolbox, shown,
confirmed and handed to remedy's runner. Nothing is written past plan, guards and journal.
"""
