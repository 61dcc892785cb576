-- Part of other queries: whether a sign of life holds, as of when the transaction began, or just before. What it reads may be
-- older than the clock by now, when it has waited for a lock or stood still, and then all would seem gone.
-- :most_s for how many seconds one holds.
seen_at > now() - make_interval(secs => %(most_s)s)
