-- The workers that gave a sign of life lately. :most_s for how many seconds one holds.
SELECT worker FROM fairlane.life WHERE
%% part_alive
