-- Drop old rows of the log, except those that say what the tables do not.
-- :above what was dropped before, :below from where on rows stay.
DELETE FROM fairlane.log WHERE id > %(above)s AND id < %(below)s
