"""Training what is asked for: on this machine or a cluster; and `dtcl check`, whether this machine can."""

LAUNCHERS = ("local", "ray")
