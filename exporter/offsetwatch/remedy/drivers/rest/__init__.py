"""A connector changed over Connect's REST API (KIP-875, KIP-980).

In: one step and what the connector looks like now. Out: an answer: done, refused with Connect's own
words, or in doubt, which is read back.
"""
