"""Plans and the journal as operators read them: rows, texts and documents. Pure.

In: records of the journal. Out: views for the command line, the page and the control listener.
"""
