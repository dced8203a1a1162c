"""Verbs of guarded remediation: plans, approvals, switches, backups, quarantine, the journal.

In: a plan's name and the decision. Out: one call to remedy's service, on the daemon's host by its
journal or from elsewhere over the control listener. A plan is shown whole before it is approved.
"""
