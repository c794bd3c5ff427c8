"""`skout serve`: a model behind a page and a REST API (`pip install "skout[cli,serve]"`).

`app` has the addresses, `schemas` and `outline` read requests, `answers` and `spectra` answer them,
`limits` and `guard` refuse and count them, `models` loads the model again when its file changes,
`server` runs all of it, and `page/` has the files for browsers.
"""
