"""Fixtures for all tests: real Agent Servers from ``tests/agent``."""

pytest_plugins = ["tests.agent.fixtures"]
