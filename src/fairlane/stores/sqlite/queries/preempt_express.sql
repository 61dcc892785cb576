-- The express jobs that have waited long enough, in the order of their expedite: lane, number, express number, since
-- when they are available.
-- :before_ms became available then or earlier, :most how many at most.
SELECT lane, seq, express, available_at_ms FROM job INDEXED BY job_express
WHERE express IS NOT NULL AND state <= 1 AND state = 1 AND available_at_ms <= :before_ms
ORDER BY express LIMIT :most
