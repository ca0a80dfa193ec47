"""What differs between blocking and async code: the same names in ``threads`` and ``aio``."""
