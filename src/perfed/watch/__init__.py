"""A live page of everything in a folder of runs: read-only, on loopback."""
