"""What runs in the background of clients, workers and pipelines."""
