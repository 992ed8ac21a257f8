"""A client's model outside training: in hand, and as a file."""
