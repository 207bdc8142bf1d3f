"""What is concluded from the rows: selection, intervals, contrasts, claims, verdicts, calibration."""
