-- End the sessions of an access token.
-- :token its id.
DELETE FROM session WHERE token = :token
