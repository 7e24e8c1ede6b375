"""The command line: asks the API of a server, or of a Drainboard made in this process, and prints what it says."""
