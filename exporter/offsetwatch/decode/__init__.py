"""BYTES -> NOUNS. Pure and total: a decoder returns Undecodable, it never raises.

In: keys, values and headers of records, bodies of REST answers, stack traces. Out: nouns of the
model. Depends on msgspec only (exact integers of any size), because this package also runs on Spark
executors: the daemon and the pipeline must read a record in exactly the same way.
"""


class InvalidRecordError(Exception):
    """Raised and caught inside decoders only; its text is the reason of an Undecodable."""
