-- Have those told that wait for a job that has ended in success; nothing is written when nobody does.
-- In order: its number. A statement of its own behind the job's end: who came to wait for it until then is seen.
INSERT INTO fairlane.release
SELECT parent, max(child), 3 FROM fairlane.edge WHERE parent = %s GROUP BY parent
ON CONFLICT (parent, upto) DO NOTHING
