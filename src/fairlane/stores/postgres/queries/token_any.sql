-- Whether there is, or was, an access token.
SELECT EXISTS (SELECT 1 FROM fairlane.token)
