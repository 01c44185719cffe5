"""Programs that show when objects live and die; see objects.py."""
