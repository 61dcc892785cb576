-- Record a worker.
-- :id, :pool, :queues and :tasks as JSON or null (all), :slots, :host, :pid, :now_ms when it started, :queue_slots as
-- JSON in the order of :queues, or null (no bound within :slots).
INSERT INTO fairlane.worker VALUES (%(id)s, %(pool)s, %(queues)s, %(tasks)s, %(slots)s, %(host)s, %(pid)s, %(now_ms)s, %(queue_slots)s)
ON CONFLICT (id) DO UPDATE SET
    pool = excluded.pool, queues = excluded.queues, tasks = excluded.tasks, slots = excluded.slots,
    queue_slots = excluded.queue_slots
