"""The decoder and its tables."""
