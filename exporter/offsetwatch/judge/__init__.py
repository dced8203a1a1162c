"""STATE -> VERDICTS AND FINDINGS: numbered rules, each a small pure function. No I/O, no clock.

In: one snapshot and the time. Out: the same snapshot with verdicts, findings and failures. What is
unknown is no verdict, and a finding ends by evidence only.
"""
