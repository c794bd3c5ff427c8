"""From spectra to molecules.

`readers` reads files of spectra and molecules, `pools` keeps molecules on disk, and `identify`
finds the molecule of a spectrum.
"""
