from client_fixture import programs_in_path  # noqa: F401
