"""Snapshot -> HTTP: metrics, JSON and health for readers, and the control listener.

In: the newest snapshot. Out: bodies, made without network I/O. Series of an input that cannot be
read are absent; nothing keeps its last good value.
"""
