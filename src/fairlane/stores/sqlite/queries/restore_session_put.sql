-- Browsers that are logged in stay so; live is the file that is replaced.
INSERT INTO main.session SELECT * FROM live.session
