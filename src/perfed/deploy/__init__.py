"""Running an experiment on real silos: certificates and folders, the silo's and the server's side, processes."""
