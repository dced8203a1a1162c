"""The composition root: config -> objects -> threads, apscheduler, signals. The only wiring.

Nothing is imported here: a verb that only asks whether a daemon runs does not load one.
"""
