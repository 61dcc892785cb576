-- Wait until no other transaction is about to store a job with one of these dedup keys, and keep others waiting.
-- In order: the keys, as an array of numbers in JSON.
SELECT count(pg_advisory_xact_lock(key)) FROM (
    SELECT key::bigint AS key FROM jsonb_array_elements_text(%s::text::jsonb) AS given (key) ORDER BY 1
) AS sorted
