"""The pages under docs/reference, made from the code: metrics, configuration, command line.

`make references` (python -m tools.references) writes them; a test holds them to the code. What the
code does not say of itself stands in metric_facts.py, and a test asks for it.
"""
