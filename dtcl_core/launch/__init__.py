"""How what is asked gets trained: on this machine, on a cluster, once more for an audit; and whether this machine can."""
