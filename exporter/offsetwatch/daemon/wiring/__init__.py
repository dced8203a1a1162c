"""Configuration -> objects: clients, tails, polls, and the parts of guarded remediation.

In: a `Config` and the topology. Out: objects, and functions that the scheduler calls. No thread is
started and nothing is asked here.
"""
