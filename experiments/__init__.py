"""The papers of the library, run again, and its own comparisons; README.md lists the scripts."""
