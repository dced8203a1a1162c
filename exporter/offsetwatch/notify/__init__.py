"""FINDINGS -> PEOPLE: who is notified of what, once, and again when it is over. Off by default.

In: findings of each tick, and plans that wait for approval. Out: webhooks. Delivery state survives
a restart; a finding is reported as resolved only if it was reported and has ended by evidence.
"""
