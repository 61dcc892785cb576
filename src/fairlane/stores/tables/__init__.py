"""What stores over tables share: everything but the database's own ways. See ``ground``."""
