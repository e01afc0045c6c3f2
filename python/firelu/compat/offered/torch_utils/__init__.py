"""What network pickles use of a package of this name, on firelu."""
