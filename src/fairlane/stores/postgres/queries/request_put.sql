-- Remember what a request with a key did, in place of one from too long ago.
-- :scope, :key, :fingerprint, :answer, :now_ms.
INSERT INTO fairlane.request (scope, key, fingerprint, answer, at_ms) VALUES (%(scope)s, %(key)s, %(fingerprint)s, %(answer)s, %(now_ms)s)
ON CONFLICT (scope, key) DO UPDATE SET fingerprint = %(fingerprint)s, answer = %(answer)s, at_ms = %(now_ms)s
