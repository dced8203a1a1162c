"""
What can go wrong in the lab. One class: whoever runs a lab can only read the message and look.

Every message therefore carries what was awaited, what was seen last, and the end of the log of
the process that was to blame.
"""


class LabError(Exception):
    """The lab could not do what was asked; the message says what it saw instead."""
