"""Verbs that answer from the tables, without Spark."""
