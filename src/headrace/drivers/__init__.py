"""One package per database; each implements ``headrace.contract.store.Store``."""
