"""What groups would have read again or missed if they had failed over, over a past window.

In: tables and samples of group offsets. Out: a summary, rows, and a page. No Spark.
"""
