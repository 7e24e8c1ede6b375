"""When: one poll of a deployment, and the schedule of polls, in this process or in workers."""
