"""Drainboard: can this old node, state field or state version go?

The steps, in the order in which data flows:

- ``sources``    ask the outside (Agent Server) and reduce what it answers to facts; raw payloads end here
- ``facts``      the words: frozen dataclasses without a place for a state value, and the pure rules about one thread
- ``candidate``  reads graphs that are not deployed yet, in a process that runs the application's code
- ``inventory``  remember facts; the only SQL
- ``drains``     decide: one disposition for each thread, one verdict for each drain
- ``jobs``       say when: one poll, and the schedule of polls, in one process (``inprocess``) or in many (``worker``)
- ``web``, ``api``, ``cli``  show it; ``demo`` brings a real local Agent Server to look at
"""
