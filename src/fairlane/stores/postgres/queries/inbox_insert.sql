-- Leave what was done without the state to those that hold it.
-- In order: counts as an array, the events as JSON.
INSERT INTO fairlane.inbox (counts, body) VALUES (%s, %s)
