-- The jobs of a bundle in the order of their numbers: id, state.
-- :bundle its id. No row: there is none that is still kept.
SELECT id, state FROM fairlane.job WHERE bundle = %(bundle)s ORDER BY seq
