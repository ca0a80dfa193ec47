"""Operations in one statement or function, beside their general bodies in ``sql_common``."""
