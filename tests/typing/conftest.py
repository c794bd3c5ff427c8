"""The scripts are read by mypy, not run."""

collect_ignore_glob = ["scripts/*"]
