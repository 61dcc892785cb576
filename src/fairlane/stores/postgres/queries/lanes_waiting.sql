-- The lanes with available jobs, express ones aside, oldest lane first.
SELECT id, available, queue, task, tenant, tier FROM (
    %% part_lanes
) AS lane
WHERE available > 0
ORDER BY id
