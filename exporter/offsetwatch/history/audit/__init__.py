"""The audit of a mirror: upstream and downstream compared record by record, on Spark.

In: both topics between pinned offsets. Out: every record that differs, is missing or is there
twice, with an explanation where one is known. What could not be compared is named.
"""
