"""BYTES -> NOUNS. Pure and total: a decoder returns Undecodable, it never raises.

Depends on msgspec only (exact integers of any size), because this folder also runs on Spark
executors: the daemon and the pipeline must read a record in exactly the same way.
"""
