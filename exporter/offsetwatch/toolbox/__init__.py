"""Offset work that a person asks for: list, export, import, diff, alter, reset, create.

Reading needs a place (place.py). A change becomes a person's plan, carried out by remedy's runner
under its journal; nothing here changes anything by itself.
"""
