"""The losses for other projects, as modules, with all that goes with them. Torch and numpy are all they need."""
