"""NOUNS. Frozen, slotted dataclasses and enums; the standard library only."""
