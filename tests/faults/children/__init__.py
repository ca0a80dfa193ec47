"""Programs that tests run in processes of their own: ``python -m faults.children.<name>``.

Each takes its arguments as one JSON object and keeps a ledger of what it does.
"""
