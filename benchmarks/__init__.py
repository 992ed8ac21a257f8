"""How fast and how lean perfed is, as ratios to plain loops that do the same arithmetic."""
