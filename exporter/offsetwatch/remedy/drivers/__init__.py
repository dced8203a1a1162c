"""Steps of plans carried out on real parts, over REST, through Strimzi, or in the offset store.

In: one step. Out: what was seen before and after it. The only importers of `clients.write`; drivers
do not know one another.
"""
