-- What the code that runs now declares of its tasks holds; live is the file that is replaced.
INSERT OR REPLACE INTO main.task SELECT * FROM live.task
