"""What is wrong now and since when: findings, and what rules remember from one tick to the next.

In: a judged snapshot. Out: findings with subject, evidence, since, and the command to run next. A
finding whose input cannot be read stays, marked with when it was last seen.
"""
