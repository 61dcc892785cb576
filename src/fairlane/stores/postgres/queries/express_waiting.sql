-- The available express jobs in the order of their expedite.
SELECT lane, arrival_ms, seq, express FROM fairlane.job
WHERE express > 0 AND state <= 1 AND state = 1
ORDER BY express
