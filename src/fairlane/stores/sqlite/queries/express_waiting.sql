-- The available express jobs in the order of their expedite.
SELECT lane, arrival_ms, seq, express FROM job INDEXED BY job_express
WHERE express IS NOT NULL AND state <= 1 AND state = 1
ORDER BY express
