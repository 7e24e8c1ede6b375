"""A stand-in for LangSmith on this machine: it takes real traces of a real Agent Server, and answers questions about them."""
