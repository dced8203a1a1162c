"""Ends of sources over time, compared with the offsets of the connectors that read them.

In: ends that the sources reported themselves, and source partitions. Out: how far each partition is
behind its source, in the source's own unit and in seconds.
"""
