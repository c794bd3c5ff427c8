"""Speed and memory; the Makefile has a target for each script."""
