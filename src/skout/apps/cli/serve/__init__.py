"""`skout serve`: a model behind a page and a REST API (`pip install "skout[cli,serve]"`).

`answers` has what models say to requests, `models` reads them again when their file is replaced,
`limits` says how much a request may ask for, `guard` refuses and counts requests, `app` has the
addresses, `server` runs all of it, and `page/` is what browsers get.
"""
