"""Drainboard in bad weather: faults of the network, the database and the clock, beside a server whose truth is known."""
