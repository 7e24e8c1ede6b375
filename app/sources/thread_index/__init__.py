"""The application's own list of threads: a query, a file, or what is pushed."""
