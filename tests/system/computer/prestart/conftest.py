from parking import conda, every, first
