"""The steps of one poll, in the order in which they run (``app.jobs.poll`` runs them).

- ``work``         the poll that runs, and what it works with
- ``lock``         one poll at a time for each deployment; every write of a poll goes through it
- ``graphs``       is what is deployed still what it was?
- ``preparing``    how names are kept, and under which revisions states are read
- ``walking``      the list of threads: all of them, or what changed
- ``resuming``     a sweep that was stopped goes on where it was
- ``taking_in``    rows of the list: states that they need, then one short write
- ``reconciling``  what was not listed, and what looks wrong in the whole
- ``again``        states that must be read although no row moved
- ``green``        what only a green verdict needs
- ``routes``       what threads have stored, of graphs of which only a drawing is known
- ``ending``       alarms, the outcome, and what it means for the drains

And between polls ``verifying``: idle heads, a handful at a time.
"""
