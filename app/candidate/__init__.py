"""A graph that is not deployed yet: its topology, read in a process of its own that runs the application's code."""
