-- Record who changed what and why.
-- :at_ms, :by, :what, :target, :reason the values or words that belong to the change, :why what the person says.
INSERT INTO fairlane.audit (at_ms, by, what, target, reason, why) VALUES (%(at_ms)s, %(by)s, %(what)s, %(target)s, %(reason)s, %(why)s)
