"""`skout fit-spectra`, `identify` and `models`: learn from spectra, and name molecules of others.

`files` opens spectra, models and pools, `work` fits and identifies, `output` writes tables and
JSON, `page` writes HTML with what `drawings` draws.
"""
