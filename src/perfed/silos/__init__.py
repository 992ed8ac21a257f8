"""Real silos: the protocol between server and silos, the side of each, and in `flower` the engine that carries it."""
