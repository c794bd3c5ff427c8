"""Applications of the library. They import what is public and `skout.dev`, and nothing else.

`tables` makes numbers of columns and reads files of tables, `tuning` chooses a model, `spectra`
names the molecules of spectra, and `cli` is the command `skout`. Users know their names from
`skout`, `skout.readers` and `skout.molecules`.
"""
