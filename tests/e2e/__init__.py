"""Functions eager and captured, side by side."""
