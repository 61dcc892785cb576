-- The instant up to which the stored state has noticed the passing of time.
SELECT value FROM fairlane.counter WHERE name = 'noticed_at_ms'
