"""Frames run instruction by instruction by gramme, against plain Python."""
