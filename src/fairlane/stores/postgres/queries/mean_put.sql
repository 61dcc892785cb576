-- Store an expected run time.
-- In order: queue, task, tenant, runs, total_us.
INSERT INTO fairlane.mean VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (queue, task, tenant) DO UPDATE SET runs = excluded.runs, total_us = excluded.total_us
