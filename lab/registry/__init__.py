"""A schema registry on this machine, and the converters that ask it."""
