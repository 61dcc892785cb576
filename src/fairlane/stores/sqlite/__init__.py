"""The SQLite store: one file, many processes."""
