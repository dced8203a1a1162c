"""Findings: problems that exist now, since when, and the state of rules between ticks.

In: a judged snapshot. Out: findings with subject, evidence, since, and the command to run next. A
finding whose input cannot be read stays, marked with when it was last seen.
"""
