-- The jobs of a bundle in the order of their numbers: id, state.
-- :bundle its id. No row: there is none that is still kept.
SELECT id, state FROM job INDEXED BY job_bundle WHERE bundle = :bundle ORDER BY seq
