"""The Delta tables: their columns, their commits, and reading them without Spark.

In: the tables' folder. Out: Arrow tables. Every reader checks that the tables agree with one
another on how far they are.
"""
