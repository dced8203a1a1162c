"""NOUNS OVER TIME. Pure: `now` is an argument, nothing here does I/O, logs or reads a clock."""
