"""What gramme knows of the insides of torch, a folder a minor version, and one table of names."""
