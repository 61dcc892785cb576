-- The expected run times.
SELECT queue, task, tenant, runs, total_us FROM mean
