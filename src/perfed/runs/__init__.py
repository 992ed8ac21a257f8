"""One experiment, one run folder, one way in: from what is asked for to what is recorded."""
