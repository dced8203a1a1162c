"""Nouns of remediation: plans, steps, incidents, facts, policies, journal records. Pure.

Journal records and plans keep their field names and order: their hashes and files depend on them.
"""
