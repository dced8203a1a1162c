"""clients + decode -> batches of observations: tails that follow topics, and polls.

In: answers of clients. Out: observations, put into the loop's queue. Each input fails alone, is
counted, and starts again with back-off. Nothing is judged here.
"""
