-- Record who changed what and why.
-- :at_ms, :by, :what, :target, :reason the values or words that belong to the change, :why what the person says.
INSERT INTO audit (at_ms, by, what, target, reason, why) VALUES (:at_ms, :by, :what, :target, :reason, :why)
