"""`python -m skout` is the command `skout`."""

from .apps.cli import main

if __name__ == "__main__":
    main()
