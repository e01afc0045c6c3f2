"""The operators that network pickles import, on firelu."""
