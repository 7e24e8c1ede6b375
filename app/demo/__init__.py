"""The demo: a real Agent Server with threads worth looking at."""
