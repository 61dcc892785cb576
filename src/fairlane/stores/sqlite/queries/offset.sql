-- How far the wall clock was ahead of the machine's steady clock, in milliseconds. No row: nobody has looked yet.
SELECT value FROM counter WHERE name = 'clock_offset_ms'
