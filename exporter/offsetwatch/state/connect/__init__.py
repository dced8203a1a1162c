"""One Connect cluster over time: its connectors, tasks, source offsets, sinks, and its topics.

In: REST answers and records of its internal topics. Out: positions and states. A source partition
is the connector's own bytes; two witnesses that contradict each other are kept side by side.
"""
