"""Tables and figures of the papers: docs/papers.md has the equations, RESULTS.md the numbers."""
