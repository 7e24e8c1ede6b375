"""The Agent Server: ``client.py`` asks, ``reduce.py`` turns what it answers into facts."""
