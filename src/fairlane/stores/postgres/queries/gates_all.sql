-- What rates and handlers' waits have stored.
SELECT kind, name, tat, held_until_ms FROM fairlane.gate
