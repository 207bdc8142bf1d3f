"""`python -m dtcl_study`: the command `dtcl`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
