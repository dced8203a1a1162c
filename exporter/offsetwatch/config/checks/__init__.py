"""Checks of what one section of the configuration cannot know of another.

In: the raw document, or sections that are valid by themselves. Out: mistakes with their paths.
"""
