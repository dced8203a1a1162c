"""The Spark jobs from offset topics to bronze, silver and gold, and their upkeep.

In: Kafka topics. Out: rows, each record once and in offset order. A row never raises, and a gap is
recorded as a gap.
"""
