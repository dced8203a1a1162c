"""The Spark session: its jars, its Kafka security, and the folder that its processes share.

In: a master and settings. Out: a session, or HistoryError with the innermost cause.
"""
