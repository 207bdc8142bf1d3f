"""What is shown: tables, figures, what chapters call, and what was benchmarked."""
