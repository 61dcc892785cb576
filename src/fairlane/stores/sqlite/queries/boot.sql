-- The start of the machine at which the store was last used. No row: nobody has looked yet.
SELECT value FROM counter WHERE name = 'boot'
