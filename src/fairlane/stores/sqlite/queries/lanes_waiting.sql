-- The lanes with available jobs, express ones aside, oldest lane first.
SELECT id, available, queue, task, tenant, tier FROM lane INDEXED BY lane_waiting
WHERE (available > 0 OR scheduled > 0) AND available > 0
ORDER BY id
