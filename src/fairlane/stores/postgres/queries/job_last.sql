-- The highest job number given so far.
SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM fairlane.job_seq
