"""The compiled module; src/api/module.cpp defines it."""
