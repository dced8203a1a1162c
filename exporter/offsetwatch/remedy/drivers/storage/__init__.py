"""Offsets written where Connect keeps them, a topic or a file, while no worker runs.

In: raw keys and values. Out: the records as read back. Refused while a worker may be alive.
"""
