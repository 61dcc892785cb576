-- Who holds the dedup keys that stored jobs did not get: queue and key, and the id in hexadecimal digits.
-- In order: queues and keys, as an array in JSON.
SELECT job.dedup, encode(job.id, 'hex')
FROM (SELECT DISTINCT value FROM jsonb_array_elements_text(%s::text::jsonb)) AS given CROSS JOIN LATERAL (
    SELECT dedup, id, successor FROM fairlane.job
    WHERE dedup = given.value AND dedup IS NOT NULL AND state <= 2 ORDER BY successor OFFSET 0
) AS job
ORDER BY job.successor DESC
