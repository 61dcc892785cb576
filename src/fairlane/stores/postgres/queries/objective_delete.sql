-- Let the wider objective hold again.
-- :tier, :queue and :tenant ('' stands for all).
DELETE FROM fairlane.objective WHERE tier = %(tier)s AND queue = %(queue)s AND tenant = %(tenant)s
