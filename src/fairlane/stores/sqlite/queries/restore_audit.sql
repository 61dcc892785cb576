-- Who changed what since the backup stays on record; live is the file that is replaced.
INSERT INTO main.audit (at_ms, by, what, target, reason, why)
SELECT at_ms, by, what, target, reason, why FROM live.audit
EXCEPT SELECT at_ms, by, what, target, reason, why FROM main.audit
ORDER BY at_ms
