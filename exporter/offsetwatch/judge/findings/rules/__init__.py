"""The numbered rules of findings. The docstring of a rule is the text that users read.

In: the rule context of one tick. Out: findings. A rule is pure, and reports nothing where it does
not know.
"""
