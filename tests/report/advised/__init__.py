"""Programs with breaks and recompiles, and what becomes of them when the report's advice is followed."""
