"""`python -m dtcl_study`: the command `dtcl`."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
