"""Careful change: a plan that is written down first, one step at a time, each step looked at before
and after. Called by the toolbox.
"""
