-- Every rule that is set.
SELECT kind, name, body FROM fairlane.rule
