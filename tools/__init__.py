"""Programs of others that our checks run, and what the pages under docs/reference are made with.
Nothing in here is shipped.
"""
