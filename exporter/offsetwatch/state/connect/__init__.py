"""State of a Connect cluster: connectors, tasks, source offsets, sinks and internal topics.

In: REST answers and records of its internal topics. Out: positions and states. A source partition
is the connector's own bytes; two witnesses that contradict each other are kept side by side.
"""
