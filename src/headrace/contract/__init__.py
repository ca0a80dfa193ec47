"""What a driver must offer. The docstrings are the specification."""
