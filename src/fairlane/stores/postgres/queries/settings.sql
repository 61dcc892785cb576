-- The settings of the store, JSON by name.
SELECT name, value FROM fairlane.setting
