"""Failover costs over a past window: what groups would have read again or missed.

In: tables and samples of group offsets. Out: a summary, rows, and a page. No Spark.
"""
