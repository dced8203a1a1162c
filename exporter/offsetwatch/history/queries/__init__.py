"""Answers from the tables: positions as of a moment, timelines. Without Spark."""
