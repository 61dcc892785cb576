"""The command line: translates words into calls and answers into tables or JSON, and decides nothing."""
