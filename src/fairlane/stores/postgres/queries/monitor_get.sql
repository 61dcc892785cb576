-- Who watches over waits, until when, since when, and how its sinks do (JSON). No row: nobody ever did.
SELECT holder, until_ms, since_ms, sinks FROM fairlane.monitor
