"""A connector changed through the Strimzi resource that owns it; changes over REST would be undone.

In: one step. Out: what the operator reports of it. The operator is awaited, and never worked round.
"""
