"""The composition root: config -> objects -> threads, apscheduler, signals. The only wiring.

In: a `Config`. Out: a running daemon, and an exit code. An input that fails ends alone and is
started again; the daemon ends only with its loop or its listener. Nothing is imported here: a verb
that only asks whether a daemon runs does not load one.
"""
