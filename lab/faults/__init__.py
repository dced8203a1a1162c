"""Faults around a daemon, one kind at a time, and the seeded runs that hold it to the truth."""
