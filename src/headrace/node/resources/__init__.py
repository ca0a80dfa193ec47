"""The API for every language: resources under ``/api/v1``, in JSON."""
