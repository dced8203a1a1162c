"""Values as Java computes them: hash order of maps, regular expressions, objects as texts.

In: values of configurations and records. Out: the bytes or the answer that the Java class gives.
What differs between Java versions is unknown and not guessed.
"""
