"""`skout fit-spectra` and `skout identify`: a library of spectra, and the names of unknown ones.

`files` opens spectra, models and pools, `work` fits and identifies, `output` writes tables and
JSON, `page` writes HTML with what `drawings` draws.
"""
