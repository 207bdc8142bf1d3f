"""Training what is asked for; and `dtcl check`, whether this machine can."""
