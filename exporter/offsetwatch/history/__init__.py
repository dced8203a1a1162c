"""THE DATA PIPELINE. Every record of the offset topics, Kafka -> bronze -> gold, through Spark.

The only importer of pyspark, and only in the modules that need it: this package, `tables`,
`records`, `read`, `logs` and `asof` want neither Spark nor a JVM. `jobs` has the verbs, `read` and
`asof` the answers.
"""
