from parking import conda, every, first  # noqa: F401
