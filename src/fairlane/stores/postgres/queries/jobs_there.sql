-- How many of these jobs there are.
-- In order: their ids.
SELECT count(*) FROM fairlane.job WHERE id = ANY (%b::bytea[])
