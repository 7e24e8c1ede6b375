"""Fixtures for all tests: real Agent Servers from ``tests/agent``, and databases of both kinds."""

pytest_plugins = ["tests.agent.fixtures", "tests.stores"]
