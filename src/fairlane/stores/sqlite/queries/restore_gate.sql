-- What was taken of rates lately stays taken; live is the file that is replaced.
INSERT INTO main.gate (kind, name, tat, held_until_ms) SELECT kind, name, tat, held_until_ms FROM live.gate WHERE true
ON CONFLICT (kind, name) DO UPDATE SET
    tat = max(tat, excluded.tat), held_until_ms = max(held_until_ms, excluded.held_until_ms)
