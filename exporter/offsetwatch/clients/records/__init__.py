"""Single records and exact ranges of records, bytes as they are in the log.

In: a partition and offsets. Out: records, the first readable one after an offset, or checksums of a
range, taken in a process of its own because librdkafka ends the process on some errors.
"""
