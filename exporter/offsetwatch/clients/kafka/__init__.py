"""Kafka through librdkafka: metadata, log ends, group offsets, topics followed or read whole.

In: client properties and topics. Out: records and answers of brokers, partition by partition:
an error of one partition never hides the others. Reads only; `clients.write` has the producers.
"""
