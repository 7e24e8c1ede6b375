"""What it means: a disposition for each thread, a verdict for each drain. Pure, but for ``service.py``."""
