"""Guarded change: incident -> plan -> guards -> journal -> runner -> verification.

In: failures of the snapshot, alerts, and requests of operators. Out: journalled steps, carried out
one at a time. Detection never implies action; unknown means no; an ambiguous write is read back and
never repeated blindly.
"""
