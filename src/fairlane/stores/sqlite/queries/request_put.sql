-- Remember what a request with a key did, in place of one from too long ago.
-- :scope, :key, :fingerprint, :answer, :now_ms.
INSERT INTO request (scope, key, fingerprint, answer, at_ms) VALUES (:scope, :key, :fingerprint, :answer, :now_ms)
ON CONFLICT (scope, key) DO UPDATE SET fingerprint = :fingerprint, answer = :answer, at_ms = :now_ms
