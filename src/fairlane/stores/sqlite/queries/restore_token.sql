-- A token that was revoked stays revoked; live is the file that is replaced.
INSERT OR REPLACE INTO main.token SELECT * FROM live.token
