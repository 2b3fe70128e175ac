"""Emitters: each writes one description of the format from the one schema."""
