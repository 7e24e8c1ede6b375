"""LangSmith: fetch runs, reduce them to facts."""
