"""The record that a task fails at, from a trace, a log and the configuration. Pure.

In: bounded windows of records. Out: one record, or the reason why none is certain: a method points
at a record only if it leaves no other.
"""
