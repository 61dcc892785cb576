-- Watch no more: another may take over at once.
-- :holder who; nothing happens when it is another.
UPDATE fairlane.monitor SET until_ms = 0 WHERE holder = %(holder)s AND until_ms <> 0
