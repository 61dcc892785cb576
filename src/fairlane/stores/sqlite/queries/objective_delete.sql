-- Let the wider objective hold again.
-- :tier, :queue and :tenant ('' stands for all).
DELETE FROM objective WHERE tier = :tier AND queue = :queue AND tenant = :tenant
