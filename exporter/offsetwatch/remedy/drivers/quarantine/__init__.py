"""Records copied before they are skipped, and written back on request.

In: a record's coordinates. Out: an exact copy, hashed and read back, in a topic or in files, and a
receipt. A record is skipped only once its copy has been read back.
"""
