"""The JSON API, ``/api/v1``: the same values that the pages show."""
