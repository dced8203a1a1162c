"""Forced failovers of two replicas that share a journal, while plans are carried out: `python -m
tests.failovers --help`.
"""
