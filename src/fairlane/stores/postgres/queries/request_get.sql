-- What a request with this key did. No row: nothing yet, or too long ago.
-- :scope, :key, :since_ms the oldest instant that counts.
SELECT fingerprint, answer FROM fairlane.request WHERE scope = %(scope)s AND key = %(key)s AND at_ms > %(since_ms)s
