"""The losses of `dtcl_core` as modules for other projects. They need torch and numpy alone."""
