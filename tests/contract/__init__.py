"""The whole API, asked with whatever its own description allows, and with much that it does not."""
