"""Types of the YAML file, in pydantic: every key, its meaning, unit and default.

In: the raw document. Out: frozen models. Strict: an unknown key is a mistake. The reference page
and config-reference.yaml are made from it.
"""
