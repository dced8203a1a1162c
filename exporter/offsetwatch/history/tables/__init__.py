"""The tables: their columns, and reading and decoding them without Spark."""
