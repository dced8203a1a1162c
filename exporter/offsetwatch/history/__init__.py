"""THE DATA PIPELINE: every record of the offset topics, Kafka -> bronze -> silver -> gold.

In: offset topics, through Spark. Out: Delta tables, audits of mirrors, baselines for the daemon,
and answers about any moment. Spark lives in `spark`, `pipeline`, `audit` and `baselines`; `tables`,
`queries` and `failover_report` need no JVM (contracts hold both).
"""
