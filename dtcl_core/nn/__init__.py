"""The losses of `dtcl_core` as modules for other projects, such as ``from dtcl_core import InfoNCELoss``. They need torch and numpy alone."""
