-- End the sessions of an access token.
-- :token its id.
DELETE FROM fairlane.session WHERE token = %(token)s
