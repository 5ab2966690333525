from parking import every, first  # noqa: F401
