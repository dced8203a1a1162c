"""Parts that several verbs share: options, output, time-outs, and where answers come from.

In: options as they were typed. Out: the document that a verb prints, from a daemon or from an own
inspection of the clusters, with what could not be read beside it. Rule: a verb answers with what is
known within its time-out (architecture, rule 14).
"""
