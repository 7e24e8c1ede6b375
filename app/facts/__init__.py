"""The words of Drainboard and the pure rules about one thread. Imports nothing of ours."""
