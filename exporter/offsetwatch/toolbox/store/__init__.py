"""Offset stores: a Connect cluster over REST, the storage of a worker, or Strimzi's resources.

In: options that name one. Out: offsets as raw bytes and as values, and the steps that change them
there. What a store cannot do is refused in words, with the store that can.
"""
