"""THE DATA PIPELINE. Every record of the offset topics, Kafka -> bronze -> gold, through Spark.

The only importer of pyspark, and only in the modules that need it: this package, `tables`,
`records` and `read` want neither Spark nor a JVM. `jobs` has the verbs, `read` the answers.
"""
