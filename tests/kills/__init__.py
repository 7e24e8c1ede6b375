"""Three workers that are killed again and again, beside a server that knows the truth."""
