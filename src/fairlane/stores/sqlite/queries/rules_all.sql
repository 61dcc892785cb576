-- Every rule that is set.
SELECT kind, name, body FROM rule
