"""NOUNS: topology, observations, offsets, findings. Frozen, slotted dataclasses and enums.

The standard library only. Nothing here does anything.
"""
