"""NOUNS OVER TIME. Pure: `now` is an argument, nothing here does I/O, logs or reads a clock.

In: observations, by one writer. Out: views for the snapshot. Every fact has an age and is not used
past it; what is missing from one answer is unknown and not gone; everything is bounded and counted.
"""
