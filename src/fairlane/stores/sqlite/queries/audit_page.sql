-- Changes, the latest first.
-- :below a number, :target null for any, :most how many at most.
SELECT id, at_ms, by, what, target, reason, why FROM audit
WHERE id < :below AND (:target IS NULL OR target = :target) ORDER BY id DESC LIMIT :most
