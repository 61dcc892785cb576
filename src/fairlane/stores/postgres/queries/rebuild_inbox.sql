-- Forget the inbox.
DELETE FROM fairlane.inbox
