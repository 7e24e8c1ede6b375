"""Where facts come from. Raw payloads never leave this package; what leaves is a dataclass of ``facts/types.py``."""
