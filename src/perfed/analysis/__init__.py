"""What the papers look at, computed from a finished run."""
