-- Take over what the file that is replaced has in worker; it is attached as live.
INSERT INTO main.worker SELECT * FROM live.worker
