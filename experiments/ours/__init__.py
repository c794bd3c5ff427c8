"""Comparisons that the papers do not have."""
