-- Take over what the file that is replaced has in monitor; it is attached as live.
INSERT INTO main.monitor SELECT * FROM live.monitor
