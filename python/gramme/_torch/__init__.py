"""Private parts of torch: a folder for each minor version, and one table of names."""
