"""Programs that tests run in processes of their own: ``python -m faults.children.<name>``.

Each gets its arguments as one JSON object and keeps an audit log of what it does.
"""
