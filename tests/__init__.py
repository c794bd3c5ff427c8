"""A package, so that pytest does not put this folder on the path of imports.

Its folders are called as libraries of others are: `kernels`, `datasets`.
"""
