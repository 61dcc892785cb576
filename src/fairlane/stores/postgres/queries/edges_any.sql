-- Whether any job waits for another.
SELECT EXISTS (SELECT 1 FROM fairlane.edge)
